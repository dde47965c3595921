"""What a person reads in a terminal: the console, tables, curves, the progress of a run."""
