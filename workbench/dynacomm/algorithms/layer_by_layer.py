"""Poseidon's wait-free back-propagation: every layer is a transmission of its own."""

from workbench.dynacomm.costs.iteration import LayerCosts, check_costs
from workbench.dynacomm.costs.plan import Plan


def layer_by_layer(costs: LayerCosts) -> Plan:
    """Plan with all L-1 cuts in both directions (Zhang et al. 2017; Cai et al. 2021, Fig. 2c)."""
    everywhere = tuple(range(1, check_costs(costs).layers))
    return Plan(everywhere, everywhere)
