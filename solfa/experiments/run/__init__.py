"""Run one experiment in its folder: prepare its data, open its log, run its solver."""
