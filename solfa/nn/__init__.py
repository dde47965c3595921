"""Layers that take plain numbers."""
