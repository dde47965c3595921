"""Grids: files that say which experiments to run, for `dora grid NAME` and `solfa grid NAME`."""
