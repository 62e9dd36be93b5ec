"""EdgeGossip's part in a training without a server: who learns from which points, and reports."""
