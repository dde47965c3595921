"""Run one experiment in its folder: its data made ready, its log, its solver."""
