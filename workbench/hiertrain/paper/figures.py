"""All figures of the paper, in the notebook's order, and what they answer together."""

from workbench.hiertrain.paper import (
    constants,
    cores,
    fleets,
    iteration_time,
    learning,
    measured,
    planning_time,
    simulated,
)

FIGURES = (
    simulated.FIG6,
    measured.FIG6_MEASURED,
    simulated.SHARING,
    *iteration_time.FIGURES,
    cores.FIG11,
    planning_time.TABLE2,
    learning.ACCURACY,
    learning.JALAD_BITS,
    fleets.FLEET,
    constants.CONTRADICTIONS,
    constants.EXPLANATIONS,
    constants.SENSITIVITY,
)
