"""Experiments: from what a user typed to a validated run in its folder, alone, as several processes, or as a grid."""
