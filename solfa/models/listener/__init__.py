"""A small network that hears codes and tells the value of a condition."""
