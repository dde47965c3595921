"""Grids of neural codecs."""
