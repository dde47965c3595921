"""The dataset format: arrays and clips in immutable files. Knows nothing of codecs."""
