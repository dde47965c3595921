"""One file per task: how its network is built and what is done with a batch."""
