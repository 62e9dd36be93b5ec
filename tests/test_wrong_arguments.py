"""One contract for all public values: a wrong argument is refused, by its name, in one line."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.decentralised import setups
from tests.dlion.trainings import DIGITS, linear, mesh
from tests.dynacomm.trainings import LENET
from tests.edgegossip.strategies import platforms
from tests.hiertrain.costs.test_problem import good
from tests.hiertrain.strategies import any_problem
from tests.olpb.test_training import POOL, made_samples, small
from workbench import decentralised, dynacomm, edgegossip, hiertrain, olpb, pipelines, sharding
from workbench.clusters import Link
from workbench.decentralised import ChocoSgd, DiLoCo, MoshpitSgd, NoLoCo
from workbench.dlion import (
    ENVIRONMENTS,
    Batching,
    Bounded,
    Environment,
    Growth,
    Setup,
    System,
    Transfer,
)
from workbench.dlion.algorithms.baseline import whole
from workbench.dlion.algorithms.max_n import MaxN
from workbench.dlion.algorithms.top_k import TopK
from workbench.dlion.costs.iteration import Workload
from workbench.hiertrain import TIERS, Chain, Hybrid, Problem
from workbench.olpb.costs.subtasks import Node, Pool
from workbench.pipelines.problems import Shared

Made = Callable[..., Any]
GOOD: dict[Made, dict[str, Any]] = {
    Growth: {},
    Batching: {},
    Transfer: {},
    Bounded: {},
    TopK: {},
    MaxN: {"n": 10},
    DiLoCo: {},
    NoLoCo: {},
    ChocoSgd: {},
    MoshpitSgd: {},
    Environment: {"title": "x", "cores": (1, 2), "mbps": (1, 2)},
    Workload: {"model_bytes": 1e3, "sample_s": 0.1},
    System: {"title": "mine", "generate_partial_gradients": whole},
    Setup: {"model": linear, "dataset": DIGITS, "cluster": mesh(1, 1, 1), "iterations": 2},
    decentralised.GossipSetup: vars(setups.epochwise(decentralised.ring(4))),
    edgegossip.Contention: {},
    edgegossip.EdgeGossip: {},
    edgegossip.Setup: {"model": linear, "dataset": DIGITS, "platforms": platforms(0.01, 0.01)},
    edgegossip.aggregate: {"x": np.zeros((4, 3)), "y": [0, 0, 1, 1], "technique": "pca_lsh"}
    | {"ratio": 1},
    hiertrain.Setup: {
        "model": LENET.model,
        "dataset": LENET.dataset,
        "problem": any_problem(5, 32),
    },
    Problem: good(),
    Hybrid: {"order": TIERS, "m_s": 1, "m_l": 2, "b_o": 3, "b_s": 1, "b_l": 2},
    Chain: {"tiers": ("edge", "cloud"), "batch": 8},
    dynacomm.Plan: {},
    dynacomm.LayerCosts: dict.fromkeys(("pull_s", "forward_s", "backward_s", "push_s"), (1, 2))
    | {"overhead_s": 1},
    dynacomm.Setup: {"model": LENET.model, "dataset": LENET.dataset, "link": LENET.link},
    Node: {"flops_per_s": 1e9},
    Pool: {"nodes": (Node(1e9),) * 2},
    pipelines.Plan: {"stages": (pipelines.Stage(1, 2, ((0, 4),)),), "microbatches": 2},
    pipelines.Problem: dict.fromkeys(("forward_s", "backward_s", "update_s"), ((1, 2), (2, 1)))
    | dict.fromkeys(("param_bytes", "output_bytes"), (1, 2))
    | {"links": {(0, 1): Link(1e6)}, "batch": 8},
    sharding.Plan: {"stage": 2},
    sharding.Problem: dict.fromkeys(("forward_s", "backward_s", "update_s"), ((1, 2), (2, 1)))
    | {"param_bytes": (1, 2), "links": dict.fromkeys(((0, 1), (1, 0)), Link(1e6))},
    olpb.Setup: {"model": small, "dataset": made_samples(), "pool": POOL, "batch_size": 6},
}
"""Each value, and arguments that it takes."""

WRONG: dict[str, tuple[Any, ...]] = {
    "int": (-1, 1.5, "2", [1], math.nan, True, None),
    "float": (-1.0, math.nan, math.inf, "2", [1], True, None),
    "bool": ("no", 1, None),
    "str": (5, ""),
    "other": (5, "mean"),
}
"""By what an argument is annotated with."""

MORE: dict[Made, list[dict[str, Any]]] = {
    Growth: [
        *({"speed_up_factor": 0.5}, {"every_epochs": 0}),
        *({"warm_up_share": 1.1}, {"speed_up_share": 1.1}),
    ],
    Batching: [
        *({"period": 0}, {"weighting": "dynamik"}),
        *({"sizes": sizes} for sizes in ((4,), (4, 4), (0, 4), {4, 8})),
    ],
    Transfer: [
        *({"period": 0}, {"losses": 0}, {"early_period": 0}, {"share": 1.5}, {"whom": "worse"}),
    ],
    TopK: [{"share": 0}, {"share": 2}, {"momentum": 1}],
    MaxN: [{"n": 101}],
    DiLoCo: [{"period": 0}, {"outer": 0.7}],
    NoLoCo: [{"period": 0}, {"rate": 0}, {"momentum": 1}, {"consensus_rate": -0.1}],
    ChocoSgd: [{"share": 0}, {"share": 2}, {"consensus_rate": 0}],
    MoshpitSgd: [{"period": 0}, {"dimensions": 0}],
    edgegossip.Contention: [{"core": 1.01}],
    edgegossip.EdgeGossip: [
        *({"ratio": 0.5}, {"stands_for": 0.0}, {"coordinator": -1}, {"failed_share": 2})
    ],
    edgegossip.Setup: [{"uplink_bps": 0}, {"batch_size": 0}],
    Problem: [{"batch": 0}],
    Chain: [{"batch": 0}, {"bits": 0}, {"bits": 24}],
    Pool: [{"nodes": (Node(1e9), 1e9)}],
    pipelines.Plan: [
        *({"microbatches": 0}, {"in_flight": (2, 1)}, {"in_flight": (0,)}, {"recompute": (1,)}),
        *({"recompute": several} for several in ([[True]], [["layers"]], np.ones((1, 2), bool))),
        *({"stages": stages} for stages in ((), ((2, 3, ((0, 4),)),), ((1, 2, ((0, 0),)),))),
        {"stages": ((1, 2, ((0, 1, 2),)),)},
    ],
    pipelines.Problem: [
        *({"batch": 0}, {"first_trained": 0}, {"param_bytes": (1, 2, 3)}, {"output_bytes": (1,)}),
        *({"tied": ((3, (1, 2)),)}, {"tied": ((1, (1, 3)),)}, {"memory_bytes": (1,)}),
        *({"tied": (weight,)} for weight in ((1,), (1, ()), (1, 5), ("1", (1, 2)), (1, (1, 2), 3))),
        {"first_trained": 3},
        *({"links": {(0, 2): Link(1e6)}}, {"links": {(0, 0): Link(1e6)}}, {"links": {(0, 1): 1e6}}),
        *({"owners": owners} for owners in ({0: 0.5}, {3: 1.0}, {-1: 1.0})),
        {"shared": (Shared(0.0, frozenset({(0, 1)})),)},
        {"shared": (Shared(1.0, frozenset({(0, 7)})),)},
    ],
    sharding.Plan: [{"stage": 4}, {"cuts": (2, 2)}, {"cuts": (0,)}],
    sharding.Problem: [
        *({"forward_s": rows} for rows in ([], [["a", 1]] * 2, [[1, 1], [1]], [[1j, 1]] * 2)),
        *({"update_s": [[1, 1]]}, {"param_bytes": (1, 2, 3)}, {"param_bytes": (1, -1)}),
        *({"links": {}}, {"links": {(0, 1): Link(1e6)}}, {"tied": ((1, ()),)}),
        *({"tied": ((1, (1, 5)),)}, {"tied": ((1, (1, 1.5)),)}, {"tied": ((3, (1, 2)),)}),
        *({"other_bytes": (math.inf, 0)}, {"memory_bytes": (1,)}, {"memory_bytes": (-1, 1)}),
    ],
    olpb.Setup: [{name: 0} for name in ("levels", "modules", "evaluate_every")],
    System: [
        {"generate_partial_gradients": None},
        {"generate_partial_gradients": int},
        {"synch_training": Bounded},
        {"synch_training": None},
    ],
    Setup: [
        *({"cluster": None, "environment": one} for one in ("homo_aa", 5, mesh(1, 1))),
        {"cluster": None},
        {"environment": "homo_a"},  # beside a cluster
        {"cluster": ENVIRONMENTS["homo_a"]},
        *({name: 0} for name in ("local_batch", "iterations", "epochs", "evaluate_every")),
        *({name: 0} for name in ("seconds", "sample_s", "patience_s")),
        {"local_batch": 10**9},
        {"patience_s": 6e-6, "local_batch": 8, "sample_s": 0.001},
        {"shards": [np.arange(9)]},
        *({"shards": [[0], [1], last]} for last in (np.arange(0), np.ones(3), ["a"], [96], [-1])),
    ],
}
"""Out of the range that an argument has beside its kind, or beside others."""


def cases() -> Iterator[tuple[Made, dict[str, Any]]]:
    for made in GOOD:
        for name, parameter in inspect.signature(made).parameters.items():
            options = str(parameter.annotation).split(" | ")
            kind = next((one for one in options if one in WRONG), "other")
            for wrong in WRONG[kind]:
                if not (wrong is None and "None" in options):
                    yield made, {name: wrong}
    for made, several in MORE.items():
        for changes in several:
            yield made, changes


def told(case: tuple[Made, dict[str, Any]]) -> str:
    made, changes = case
    return f"{made.__name__}-" + "-".join(
        f"{name}={value!r:.20}" for name, value in changes.items()
    )


@pytest.mark.parametrize("case", list(cases()), ids=told)
def test_wrong_arguments_are_refused_by_name_in_a_line(case: tuple[Made, dict[str, Any]]) -> None:
    made, changes = case
    made(**GOOD[made])
    with pytest.raises((ValueError, TypeError)) as caught:
        made(**GOOD[made] | changes)
    said = str(caught.value)
    assert "\n" not in said
    assert any(name.removesuffix("s") in said for name in changes)
    assert "__init__" not in said
