"""Environments of workers, and the costs of their iterations."""
