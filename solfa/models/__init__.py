"""Whole networks: forward and generate, no training loop."""
