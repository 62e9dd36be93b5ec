"""What an iteration takes under a policy: problems, policies, the cost model."""
