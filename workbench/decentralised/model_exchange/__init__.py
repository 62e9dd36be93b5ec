"""Nodes exchange models: an exchange an epoch under a mixing matrix, or GoSGD as published."""
