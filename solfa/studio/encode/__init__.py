"""The room where audio files become a dataset: drop them, watch, and hear what a codec makes of them."""
