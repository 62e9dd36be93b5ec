"""Platforms under load, and the times of their epochs, without learning."""
