"""What an iteration takes under a plan: layer costs, plans, the cost model, its timeline."""
