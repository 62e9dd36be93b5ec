"""JointDNN+: JointDNN's shortest path over device, edge and cloud."""

from workbench.hiertrain.algorithms.jointdnn import fastest_chain
from workbench.hiertrain.costs.policy import Chain
from workbench.hiertrain.costs.problem import TIERS, Problem


def jointdnn_plus(problem: Problem) -> Chain:
    """Fastest assignment of layers to the three tiers (Liu et al. 2020, VI-C).

    Deviation: as in `workbench.hiertrain.algorithms.jointdnn.jointdnn`.
    """
    return fastest_chain(problem, TIERS)
