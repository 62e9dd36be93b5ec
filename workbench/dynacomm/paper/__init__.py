"""The reproduction of Cai et al. 2021: testbed, calibration, experiments, charts, answers."""
