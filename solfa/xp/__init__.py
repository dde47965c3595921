"""An experiment's folder: its file names, what its records say, its state files, its lock."""
