"""One file per task: how to build its network and what to do with a batch."""
