"""The parts of the training loop: one update, means of metrics, agreement, random states, batches of a stage."""
