"""Watchers that follow a run: its log, TensorBoard, Weights & Biases."""
