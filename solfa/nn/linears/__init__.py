"""Special linear layers: fewer bits or another layout for generation, low-rank additions."""
