"""The paper's experiments (Han et al. 2021, Sec. 4): modules by what they show."""
