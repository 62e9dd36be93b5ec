"""Experiments of OLPB's paper: a frame each."""
