"""From a dataset to training batches: deterministic, resumable, the same for every number of workers and ranks."""
