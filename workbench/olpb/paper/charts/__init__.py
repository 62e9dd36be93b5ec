"""Charts of OLPB's paper: frame to chart."""
