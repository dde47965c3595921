"""Generate with SaShiMi in one C function: run the network, draw, and feed the draw back, sample by sample.

In PyTorch, a step spends its time on dispatch: hundreds of small operations per sample. Here, the weights are packed
into one block of memory for a small C kernel, which the system's C compiler builds on first use. If there is no
compiler, or the kernel does not support the model, `fused_stepper` says so in the log and returns None, and
`Sashimi.step` does the same work slowly.
"""
