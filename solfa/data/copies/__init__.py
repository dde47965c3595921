"""Copies: clips that sound the same, found by their landmarks."""
