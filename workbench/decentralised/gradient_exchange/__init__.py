"""Nodes exchange gradients, whole or in part: each peer is sent what its link can take."""
