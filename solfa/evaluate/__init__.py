"""Measurements over audio and over what was encoded."""
