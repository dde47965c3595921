"""Grids of codec language models."""
