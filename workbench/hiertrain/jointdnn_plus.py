"""JointDNN+: JointDNN's shortest path over device, edge and cloud."""

from workbench.hiertrain.jointdnn import fastest_chain
from workbench.hiertrain.policy import Chain
from workbench.hiertrain.problem import TIERS, Problem


def jointdnn_plus(problem: Problem) -> Chain:
    """Fastest assignment of layers to the three tiers (Liu et al. 2020, VI-C).

    Deviation: as in `workbench.hiertrain.jointdnn.jointdnn`.
    """
    return fastest_chain(problem, TIERS)
