"""Processes that belong together: children, the workers of one experiment, the experiments of a grid."""
