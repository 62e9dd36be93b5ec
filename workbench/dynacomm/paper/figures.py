"""All figures of the paper, in the notebook's order, and what they answer together."""

from workbench.dynacomm.paper import (
    accuracy,
    constants,
    planning_time,
    profiling,
    replanning,
    saved_time,
    speedup,
)

FIGURES = (
    saved_time.FIG5,
    saved_time.FIG6,
    saved_time.FIG7,
    saved_time.FIG8,
    saved_time.NEVER_SLOWER,
    saved_time.ITERATIONS,
    saved_time.FIG9A,
    saved_time.FIG9B,
    accuracy.FIG10,
    speedup.FIG11,
    speedup.FIG11_SIMULATED,
    replanning.REPLANNING,
    replanning.GAINS,
    planning_time.TABLE1,
    planning_time.FIG12,
    planning_time.FIG12_SLOPES,
    constants.EXPLANATIONS,
    profiling.TABLE2,
)
