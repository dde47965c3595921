"""Checkpoints of others: found here or on the Hub, read without running code, every weight accounted for."""
