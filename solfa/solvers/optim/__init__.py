"""Optimisers, the groups of their parameters, learning rates over a run, averages of weights."""
