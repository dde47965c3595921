"""Those who follow a run: its log, TensorBoard, Weights & Biases."""
