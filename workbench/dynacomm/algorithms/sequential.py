"""The default parameter server: everything in one transmission, then computation, then back."""

from workbench.dynacomm.costs.iteration import LayerCosts, check_costs
from workbench.dynacomm.costs.plan import Plan


def sequential(costs: LayerCosts) -> Plan:
    """Plan without a cut, for costs of any length (Cai et al. 2021, Fig. 2a)."""
    check_costs(costs)
    return Plan()
