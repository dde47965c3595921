"""Faster encoders for CPUs: the same arithmetic as the plain modules, in pieces that stay in the cache.

A codec's first layers turn one second of audio into tens of megabytes of activations; computed over a whole clip, each
of them is written to memory that the kernel has to clear first, and read back by the next layer. Here the layers
between two downsamplings are computed together, one short piece of time after another, each piece with the few samples
around it that its convolutions see. No value is approximated, and none depends on where the pieces were cut.

In float32 with one thread, a compiled kernel takes over those layers whose sums it reproduces to the last bit on this
machine (`sum_order`); the channels of a frame are then next to each other from one layer to the next.
"""
