"""The reproduction: what the paper states, and what we get."""
