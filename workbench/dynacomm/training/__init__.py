"""Training under plans on simulated parameter servers: `Setup` and `train`."""
