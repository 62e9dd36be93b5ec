"""What workers compute with and over what links, and what an iteration takes."""
