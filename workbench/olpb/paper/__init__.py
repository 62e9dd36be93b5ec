"""The paper's experiments (Zhao et al., Secs. V and VII): modules by what they show."""
