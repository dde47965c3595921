"""A table beside a dataset that says more of its clips, joined to them by their names."""
