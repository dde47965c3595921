"""From clips to batches: the plan of an epoch, what lies in which row, and the loader that resumes exactly."""
