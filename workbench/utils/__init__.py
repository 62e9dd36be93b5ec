"""What all rooms use: refusals, whole files, parallel calls, the same kernels everywhere."""
