"""A table with more about a dataset's clips, joined to them by their names."""
