"""What of a solver is kept in checkpoints, and how a run comes back to it."""
