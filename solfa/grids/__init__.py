"""Grids: modules that list experiments to run, for `dora grid NAME` and `solfa grid NAME`."""
