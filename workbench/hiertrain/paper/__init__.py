"""The reproduction of Liu et al. 2020: testbed, calibration, experiments, charts, answers."""
