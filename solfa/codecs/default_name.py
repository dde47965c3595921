"""The name that commands need before any codec is loaded; nothing else is imported for it."""

DEFAULT_CODEC = "solfa_24khz"
"""What encodes where nobody chose: its weights come with Solfa, so it works without a network."""
