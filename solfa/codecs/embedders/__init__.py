"""Embedders: networks that turn sound into a few numbers per window, to compare collections by."""
