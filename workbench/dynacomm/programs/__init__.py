"""Workers and parameter servers that carry a plan out, with or without learning."""
