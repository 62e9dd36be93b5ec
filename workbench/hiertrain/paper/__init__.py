"""The paper's experiments on its testbed (Liu et al. 2020): modules by what they show."""

from workbench.hiertrain.paper import (
    constants,
    cores,
    fleets,
    iteration_time,
    learning,
    planning_time,
    simulated,
)

FIGURES = (
    simulated.FIG6,
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
