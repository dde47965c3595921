"""The only code that knows audio files: probe, read a span, resample, write, and the collections they come in."""
