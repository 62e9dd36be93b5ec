"""The paper's experiments on its testbed (Cai et al. 2021, Sec. V): modules by what they show."""
