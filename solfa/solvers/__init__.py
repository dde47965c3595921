"""Training: the standard solver, one file per task, and the parts a solver is composed of."""
