"""Back-propagation as a parallel scan over Jacobians (OLPB, Sec. IV; BPPSA)."""
