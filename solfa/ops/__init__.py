"""Pure functions of tensors and arrays."""
