"""OLPB."""
