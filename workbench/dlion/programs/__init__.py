"""The program of a worker, one for every system."""
