"""Linear layers other than the plain one: fewer bits or another layout for generation, low-rank additions."""
