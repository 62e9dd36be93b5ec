"""All figures of the paper, in the notebook's order, and what they answer together."""

from workbench.dynacomm.paper import (
    accuracy,
    cost_model,
    planning_time,
    profiling,
    replanning,
    speedup,
)

FIGURES = (
    cost_model.FIG5,
    cost_model.FIG6,
    cost_model.FIG7,
    cost_model.FIG8,
    cost_model.NEVER_SLOWER,
    cost_model.HALVED,
    cost_model.BACKWARD,
    cost_model.ITERATIONS,
    cost_model.FIG9A,
    cost_model.FIG9B,
    accuracy.FIG10,
    speedup.FIG11,
    speedup.FIG11_SIMULATED,
    replanning.REPLANNING,
    planning_time.TABLE1,
    planning_time.FIG12,
    profiling.TABLE2,
)
