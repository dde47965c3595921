"""Generation with SaShiMi in one C function: the whole network, the draw, and the draw read again, sample by sample.

Stepping in PyTorch spends its time on dispatch: hundreds of small operations a sample. Here, the weights are packed
into one piece of memory and a small C kernel goes through them; the system's C compiler builds it at first use. Where
there is none, or the model is not one that the kernel knows, `fused_stepper` says so in the log and gives None, and
`Sashimi.step` does the same work slowly.
"""
