"""The reproduction of Zhao et al.: testbed, calibration, experiments, charts, answers."""
