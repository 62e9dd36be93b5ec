"""The reproduction of Han et al. 2021: testbed, calibration, experiments, charts, answers."""
