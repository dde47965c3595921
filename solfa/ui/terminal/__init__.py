"""Output in the terminal: the console, tables, curves, the progress of a run."""
