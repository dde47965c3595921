"""Who decodes which file: libsndfile, PyAV, and what they promise about lengths and seeks."""
