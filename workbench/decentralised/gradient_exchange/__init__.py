"""Gradients in whole or in part, as nodes exchange them: each peer gets what its link can take."""
