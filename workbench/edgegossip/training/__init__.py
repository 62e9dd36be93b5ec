"""EdgeGossip in one call: a model, data and unequal platforms."""
