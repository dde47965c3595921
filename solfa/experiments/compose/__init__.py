"""From what a user typed to validated settings: overrides, Hydra, signatures, changed defaults."""
