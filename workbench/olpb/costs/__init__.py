"""What back-propagation by scan is given and what it takes (OLPB, Sec. IV)."""
