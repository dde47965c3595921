"""The room of blind listening: which of two is better, without knowing which is which."""
