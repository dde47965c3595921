"""SaShiMi: the network, its output heads, and drawing waveforms with it."""
