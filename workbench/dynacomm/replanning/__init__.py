"""Plans that change while a worker trains: from what it observed, or from a known future."""
