"""The machine: what it can do, and how worker processes are started on it."""
