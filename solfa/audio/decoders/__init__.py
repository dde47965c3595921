"""The decoders, libsndfile and PyAV, and what can be relied on about their lengths and seeks."""
