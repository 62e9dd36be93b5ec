"""Costs of back-propagation by scan (OLPB, Sec. IV)."""
