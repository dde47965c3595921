"""Code in C for CPUs, to generate and to train state-space layers, and how it is compiled, kept and loaded.

The system's C compiler builds it on first use. Where there is none, PyTorch does the same work more slowly.
"""
