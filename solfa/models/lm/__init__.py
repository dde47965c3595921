"""Codec language models: the network, its conditions, generation, and MusicGen checkpoints in and out."""
