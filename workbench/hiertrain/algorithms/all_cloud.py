"""All-Cloud: the device ships every sample to the cloud, which trains."""

from workbench.hiertrain.costs.policy import Hybrid
from workbench.hiertrain.costs.problem import Problem, check_problem


def all_cloud(problem: Problem) -> Hybrid:
    """All layers and samples on the cloud: it is worker o, alone (Liu et al. 2020, VI-C)."""
    check_problem(problem)
    return Hybrid(("cloud", "device", "edge"), m_s=0, m_l=0, b_o=problem.batch, b_s=0, b_l=0)
