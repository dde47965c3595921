"""Autoencoders of stable-audio-tools: its `model_config.json`, its checkpoints, and the codec built from them."""
