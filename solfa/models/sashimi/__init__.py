"""SaShiMi: the network, its output heads, and how to draw waveforms with it."""
