"""Environments of peers, and what runs in them, which knows nothing of Solfa."""
