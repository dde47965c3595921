"""Code in C for generation on CPUs, and how it is compiled, kept and loaded.

The system's C compiler builds it on first use. Where there is none, PyTorch does the same work more slowly.
"""
