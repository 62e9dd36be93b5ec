"""All figures of the paper, in the notebook's order, and what they answer together."""

from workbench.dynacomm.paper import cost_model, planning_time, runs

FIGURES = (
    cost_model.FIG5,
    cost_model.FIG6,
    cost_model.FIG7,
    cost_model.FIG8,
    cost_model.NEVER_SLOWER,
    cost_model.ITERATIONS,
    cost_model.FIG9A,
    cost_model.FIG9B,
    runs.FIG10,
    cost_model.FIG11,
    runs.FIG11_SIMULATED,
    runs.REPLANNING,
    planning_time.TABLE1,
    planning_time.FIG12,
    runs.TABLE2,
)
