"""All-Edge: the device ships every sample to the edge server, which trains."""

from workbench.hiertrain.costs.policy import Hybrid
from workbench.hiertrain.costs.problem import Problem, check_problem


def all_edge(problem: Problem) -> Hybrid:
    """All layers and samples on the edge: it is worker o, alone (Liu et al. 2020, VI-C)."""
    check_problem(problem)
    return Hybrid(("edge", "device", "cloud"), m_s=0, m_l=0, b_o=problem.batch, b_s=0, b_l=0)
