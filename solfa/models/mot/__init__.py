"""Mixture-of-Transformers: a frozen text language model with audio experts (arXiv 2411.04996, 2412.15188)."""
