"""Graphs of fewer operators that give the same."""
