"""What workers do: one program for every system."""
