"""What runs in the environments of peers, which know nothing of Solfa."""
