"""Lightning Fabric: devices, precision, processes, and what it wraps around networks."""
