"""Planning while it trains: costs estimated from what links and workers did, and the bound."""
