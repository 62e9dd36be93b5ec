"""The performance predictor: contention, its monitor, profiling runs and the regression."""
