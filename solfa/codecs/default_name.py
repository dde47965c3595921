"""The name of the default codec, which commands need without importing anything else."""

DEFAULT_CODEC = "solfa_24khz"
"""Used unless another codec is chosen; its weights ship with Solfa, so it works offline."""
