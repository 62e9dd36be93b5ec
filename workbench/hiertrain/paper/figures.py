"""All figures of the paper, in the notebook's order, and what they answer together."""

from workbench.hiertrain.paper import contradictions, cost_model, planning_time, runs

FIGURES = (
    runs.FIG6,
    runs.FIG6_MEASURED,
    runs.SHARED_INTERFACES,
    *cost_model.FIGURES,
    planning_time.TABLE2,
    runs.ACCURACY,
    contradictions.CONTRADICTIONS,
    contradictions.SPEEDS,
)
