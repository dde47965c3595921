"""The parts of the training loop: one update, means of metrics, stop signals, random states, batches of a stage."""
