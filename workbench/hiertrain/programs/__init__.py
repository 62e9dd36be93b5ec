"""Device, edge and cloud carry a policy out, with or without learning."""
