"""Trainable neural codecs: a network around a bottleneck, its files, and EnCodec checkpoints to start from."""
