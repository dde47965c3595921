"""Lightning Fabric: devices, precision, processes, and the wrappers around networks."""
