"""What OLPB's paper claims, answered from stored frames."""
