"""From clips to batches: the plan of an epoch, the layout of rows, and a loader that resumes exactly."""
