"""The paper's experiments on its testbed (Liu et al. 2020): modules by what they show."""
