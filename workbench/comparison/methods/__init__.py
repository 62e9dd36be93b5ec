"""Methods of training by name, in the order of a table."""

from workbench.comparison.methods import (
    all_reduce,
    alone,
    fedavg,
    parameter_server,
    peers,
    pipedream,
    pipeline,
    rounds,
    scan,
    sharded,
    tiers,
)
from workbench.comparison.methods.method import EQUAL, Method, Plan, plans, usable

METHODS: dict[str, Method] = {
    method.name: method
    for module in (
        alone,
        all_reduce,
        sharded,
        parameter_server,
        tiers,
        pipeline,
        pipedream,
        scan,
        rounds,
        fedavg,
        peers,
    )
    for method in module.METHODS
}

EXACT = [method for method in METHODS.values() if method.update == EQUAL]
"""Methods whose updates equal SGD's."""

__all__ = ["EQUAL", "EXACT", "METHODS", "Method", "Plan", "plans", "usable"]
