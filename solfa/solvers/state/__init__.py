"""What checkpoints keep of a solver, and how a run resumes from them."""
