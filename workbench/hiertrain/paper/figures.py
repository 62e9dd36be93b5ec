"""All figures of the paper, in the notebook's order, and what they answer together."""

from workbench.hiertrain.paper import cost_model, runs

FIGURES = (
    runs.FIG6,
    runs.FIG6_MEASURED,
    runs.SHARED_INTERFACES,
    *cost_model.FIGURES,
    cost_model.TABLE2,
    runs.ACCURACY,
    cost_model.CONTRADICTIONS,
    cost_model.SPEEDS,
)
