"""Neural codecs that can be trained: a SEANet around a bottleneck, its files, and EnCodec checkpoints as a start."""
