"""Training on device, edge and cloud: `Setup` and `train`."""
