"""The memory of a graph: orders of operators, a place for each result, an arena to run it in."""
