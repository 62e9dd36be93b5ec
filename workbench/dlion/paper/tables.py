"""Tables 1 to 3, sizes of the models, and what the cost model says of every system."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise, product
from statistics import fmean
from typing import Any

import polars as pl

from workbench.clusters.schedule import Schedule
from workbench.dlion.algorithms import COMPARED, SYSTEMS, synchronisation
from workbench.dlion.costs.environments import ENVIRONMENTS
from workbench.dlion.costs.iteration import Workload, first_iterations
from workbench.dlion.gradient import Accumulated
from workbench.dlion.paper.cases import LEARNING, Case, system_of
from workbench.dlion.paper.testbed import STATED, paper_testbed
from workbench.dlion.training import train
from workbench.profiles import profile_model
from workbench.reproduction.claims import Answer, paper_value
from workbench.reproduction.figure import Figure
from workbench.reproduction.scales import Scaled
from workbench.reproduction.sweep import sweep

# --- Table 1: lines to plug a system in -----------------------------------------------------------

HOOKS = ("generate_partial_gradients", "synch_training")
_STRATEGIES = (
    synchronisation.synchronous,
    synchronisation.asynchronous,
    synchronisation.delivered,
)


def table1() -> pl.DataFrame:
    """Statements that each system's hooks need (Table 1).

    A hook counts the statements of its function; of a class, of its ``__init__`` and ``__call__``;
    docstrings not, nor what these call. What every system may name counts none: ways to wait, and
    that what is not sent adds up, of which the rule counts that selects what is sent.
    """
    rows = [
        (name, hook, statements(getattr(SYSTEMS[name], hook)))
        for name, hook in product(COMPARED, HOOKS)
    ]
    schema = {"system": pl.String, "hook": pl.String, "statements": pl.Int64}
    return pl.DataFrame(rows, schema, orient="row")


def statements(hook: Callable[..., Any]) -> int:
    """How many statements a hook has, by the rule of `table1`."""
    if hook in _STRATEGIES or isinstance(hook, synchronisation.Bounded):
        return 0
    if isinstance(hook, Accumulated):
        hook = hook.rule
    if not isinstance(hook, type) and not inspect.isfunction(hook):
        hook = type(hook)
    tree = ast.parse(textwrap.dedent(inspect.getsource(hook))).body[0]
    bodies = [tree]
    if isinstance(tree, ast.ClassDef):
        wanted = ("__init__", "__call__")
        bodies = [part for part in tree.body if getattr(part, "name", "") in wanted]
    return sum(
        isinstance(part, ast.stmt)
        and not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))  # docstring
        for body in bodies
        for part in ast.walk(body)
        if part is not body
    )


def _lines(system: str, hook: str, table1: pl.DataFrame) -> Answer | None:
    row = table1.filter(system=system, hook=hook)
    return None if row.is_empty() else Answer(float(row["statements"][0]), "statements")


TABLE1 = Figure(
    id="table1",
    compute=table1,
    answers={
        f"dlion.table1.{system}.{hook}": partial(_lines, system, hook)
        for system, hook in product(COMPARED[:-1], HOOKS)
    },
)

# --- Tables 2 and 3: environments -----------------------------------------------------------------


def table2() -> pl.DataFrame:
    """Mbit/s between the six regions (Table 2)."""
    names = list(STATED["regions"])
    rows = [
        (names[source], names[target], mbps)
        for (source, target), mbps in ENVIRONMENTS["regions"].pairs_mbps.items()
    ]
    schema = {"source": pl.String, "target": pl.String, "mbps": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def table3(end_s: float = 1500.0) -> pl.DataFrame:
    """Cores and Mbit/s of each worker over time, by environment (Table 3)."""
    rows = []
    for name, where in ENVIRONMENTS.items():
        workers = [
            (Schedule.of(cores), Schedule.of(mbps))
            for cores, mbps in zip(where.cores, where.mbps, strict=True)
        ]
        starts_s = {at for both in workers for part in both for at in part.starts_s if at < end_s}
        for node, (cores, mbps) in enumerate(workers):
            for from_s, to_s in pairwise(sorted({0.0, end_s, *starts_s})):
                now = cores.at(from_s), where.unit, mbps.at(from_s)
                rows.append((name, node, from_s, to_s, *now))
    schema: dict[str, Any] = {
        "environment": pl.String,
        "node": pl.Int64,
        **dict.fromkeys(("from_s", "to_s", "cores"), pl.Float64),
        "unit": pl.String,
        "mbps": pl.Float64,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def by_phase(table: pl.DataFrame) -> pl.DataFrame:
    """Table 3 as it is printed: a row per environment and phase, a column per worker."""
    cores, mbps = (pl.col(name).cast(pl.Int64) for name in ("cores", "mbps"))
    has = pl.format("{} {}, {} Mbit/s", cores, "unit", mbps)
    return table.with_columns(has=has, worker=pl.format("worker {}", "node")).pivot(
        "worker", index=["environment", "from_s", "to_s"], values="has"
    )


def _cores(environment: str, table3: pl.DataFrame) -> Answer | None:
    """Cores of all workers by Table 3, beside those that Sec. 5.2.3 counts."""
    rows = table3.filter(environment=environment)
    if rows.is_empty():
        return None
    cores, stated = float(rows["cores"].sum()), paper_value(f"dlion.cores.{environment}")
    caveat = "" if cores == stated else f"the paper's text counts {stated:g}, its table {cores:g}"
    return Answer(cores, "sum of the row", caveat=caveat)


TABLE2 = Figure(id="table2", compute=table2)

TABLE3 = Figure(
    id="table3",
    compute=table3,
    answers={
        f"dlion.cores.{environment}": partial(_cores, environment)
        for environment in ("homo_a", "hetero_cpu_a", "hetero_cpu_b")
    },
)

# --- Sizes of the models (Sec. 5.1.1) -------------------------------------------------------------

ZOO_NAMES = {"cipher": "cipher", "mobilenet": "mobilenet_v1"}


def models() -> pl.DataFrame:
    """Megabytes and layers with weights of both models."""
    profiles = {name: profile_model(model) for name, model in ZOO_NAMES.items()}
    rows = [(name, own.param_bytes / 1e6, len(own.layers)) for name, own in profiles.items()]
    schema = {"model": pl.String, "mbytes": pl.Float64, "layers": pl.Int64}
    return pl.DataFrame(rows, schema, orient="row")


def _model(model: str, column: str, models: pl.DataFrame) -> Answer | None:
    row = models.filter(model=model)
    return None if row.is_empty() else Answer(float(row[column][0]), ZOO_NAMES[model])


MODELS = Figure(
    id="models",
    compute=models,
    answers={
        "dlion.models.cipher_mb": partial(_model, "cipher", "mbytes"),
        "dlion.models.mobilenet_mb": partial(_model, "mobilenet", "mbytes"),
        "dlion.models.mobilenet_layers": partial(_model, "mobilenet", "layers"),
    },
)

# --- Predicted iterations beside simulated ones ---------------------------------------------------

SENT = ("gaia", "max10")
"""Systems of which a prediction is told what share of the bytes they send."""


def predicted(
    systems: Sequence[str], iterations: int, environment: str = "hetero_sys_a"
) -> pl.DataFrame:
    """Seconds of an iteration in a dry run and in a short simulation, by system.

    Simulated is the mean over the workers, of the second half; ``percent``, how far the prediction
    is off. Where the gradient decides what is sent by its values alone (`SENT`), all send in the
    dry run as much as the worker that sent most in the simulation, for which the others wait:
    ``share``.
    """
    learning = LEARNING.smoke
    learner = learning.learner._replace(stands_for=1.0)
    setup = paper_testbed().setup(learner, learning.data, environment, seconds=1e9)
    setup = replace(setup, seconds=None, iterations=iterations, evaluate_every=iterations)
    model_bytes = profile_model(learner.model).param_bytes
    workload = Workload(model_bytes, setup.seconds_per_sample[0], setup.host_s, setup.local_batch)
    second_half = pl.col("iteration") >= iterations // 2

    def mean_s(rows: pl.DataFrame) -> float:
        taken_s = (pl.col("at_s").max() - pl.col("at_s").min()) / (pl.len() - 1)
        by_node = rows.filter(second_half).group_by("node").agg(taken_s)
        return fmean(by_node["at_s"].to_list())

    def measure(system: str) -> dict[str, Any]:
        case = system_of(Case(system), learning, len(learning.data.y_train))
        trained = train(setup, case)
        share = None
        if system in SENT:
            sent = trained.transfers.filter(second_half).group_by("source")
            share = max(sent.agg(pl.col("bytes").mean())["bytes"]) / model_bytes
        dry = first_iterations(
            setup.network,
            workload,
            case,
            iterations,
            share=share,
            seed=setup.seed,
            samples=setup.samples,
        )
        ours, simulated = mean_s(dry), mean_s(trained.iterations)
        return {
            "predicted_s": ours,
            "simulated_s": simulated,
            "percent": 100 * (ours / simulated - 1),
            "share": share,
        }

    schema = {
        "system": pl.String,
        **dict.fromkeys(("predicted_s", "simulated_s", "percent", "share"), pl.Float64),
    }
    return sweep(measure, [{"system": name} for name in systems], schema, title="Predicted")


PREDICTED = Figure(
    id="predicted",
    compute=predicted,
    sizes={
        "systems": Scaled(smoke=COMPARED, default=tuple(SYSTEMS), paper=tuple(SYSTEMS)),
        "iterations": Scaled(smoke=20, default=100, paper=100),
    },
)
