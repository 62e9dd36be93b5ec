"""Figs. 6, 8, 19 and 20: what DLion's controllers decide while it trains."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl

from workbench.clusters.schedule import Schedule
from workbench.dlion.algorithms.global_batch import CONSTANT
from workbench.dlion.costs.environments import Environment
from workbench.dlion.paper.experiments.cases import Case, Learning, learning_at, system_of
from workbench.dlion.paper.testbed import STATED, paper_testbed
from workbench.dlion.training import Trained, train
from workbench.experiments import sweep
from workbench.profiles import profile_model

BATCHES: dict[str, Any] = {
    "at_s": pl.Float64,
    **dict.fromkeys(("node", "iteration", "samples", "global_batch"), pl.Int64),
    "cores": pl.Float64,
    "stands_for": pl.Float64,
}
LINKS: dict[str, Any] = {
    "at_s": pl.Float64,
    **dict.fromkeys(("source", "target", "iteration"), pl.Int64),
    **dict.fromkeys(("percent", "mbps"), pl.Float64),
}
FIG6_CORES = (24.0, 24.0, 12.0, 12.0, 4.0, 4.0)
FIG6_S = 1000.0
FIG8_S = 200.0


def fig6(scale: str = "default", seed: int = 1, dataset: str = "auto") -> pl.DataFrame:
    """Local batch sizes while the global one grows, with 24/24/12/12/4/4 cores (Fig. 6).

    Columns ``at_s, node, iteration, samples`` (of the paper's, for each of the learner's several),
    ``global_batch, cores`` (at that time) and ``stands_for``.
    """
    where = replace(paper_testbed().environment("homo_a"), title="Fig. 6", cores=FIG6_CORES)
    learning = learning_at(scale, dataset)._replace(seconds=FIG6_S)
    return _batches("Figure 6", where, learning, seed, constant=False)


def fig19(scale: str = "default", seed: int = 1, dataset: str = "auto") -> pl.DataFrame:
    """Local batch sizes while cores change and the global one stays (Fig. 19); as `fig6`."""
    where = paper_testbed().environment("fig19")
    learning = learning_at(scale, dataset)._replace(seconds=STATED["fig19"]["end_s"])
    return _batches("Figure 19", where, learning, seed, constant=True)


def fig8(scale: str = "default", seed: int = 1, dataset: str = "auto") -> pl.DataFrame:
    """What is sent over links of different bandwidth (Fig. 8).

    Columns ``at_s, source, target, iteration, percent`` of the whole gradient's bytes, and
    ``mbps``, the receiver's interface at that time.
    """
    learning = learning_at(scale, dataset)._replace(seconds=FIG8_S)
    return _links("Figure 8", paper_testbed().environment("hetero_net_a"), learning, seed)


def fig20(scale: str = "default", seed: int = 1, dataset: str = "auto") -> pl.DataFrame:
    """What is sent while bandwidth changes (Fig. 20); as `fig8`."""
    where = paper_testbed().environment("fig20")
    learning = learning_at(scale, dataset)._replace(seconds=STATED["fig20"]["end_s"])
    return _links("Figure 20", where, learning, seed)


def _train(where: Environment, learning: Learning, seed: int, *, constant: bool) -> Trained:
    learner, data = learning.learner, learning.data
    system = system_of(Case(), learning, len(data.y_train))
    if constant and system.batching is not None:
        system = replace(system, batching=replace(system.batching, growth=CONSTANT))
    setup = paper_testbed().setup(
        learner, data, where, seconds=learning.seconds, seed=seed, evaluate_every=10**6
    )
    return train(setup, system)


def _batches(
    title: str, where: Environment, learning: Learning, seed: int, *, constant: bool
) -> pl.DataFrame:
    shared = {"where": where, "learning": learning, "seed": seed, "constant": constant}
    return sweep(title, _batch_sizes, [{}], BATCHES, shared=shared)


def _batch_sizes(
    *, where: Environment, learning: Learning, seed: int, constant: bool, **_: object
) -> list[dict[str, Any]]:
    trained = _train(where, learning, seed, constant=constant)
    factor = learning.learner.sample_stands_for / learning.learner.stands_for
    rows = trained.iterations.with_columns(
        (pl.col("samples", "global_batch") * factor).cast(pl.Int64),
        stands_for=pl.lit(learning.learner.stands_for),
    )
    return [
        {**row, "cores": Schedule.of(where.cores[row["node"]]).at(row["at_s"])}
        for row in rows.to_dicts()
    ]


def _links(title: str, where: Environment, learning: Learning, seed: int) -> pl.DataFrame:
    shared = {"where": where, "learning": learning, "seed": seed}
    return sweep(title, _gradient_sizes, [{}], LINKS, shared=shared)


def _gradient_sizes(
    *, where: Environment, learning: Learning, seed: int, **_: object
) -> list[dict[str, Any]]:
    learner = learning.learner  # what it sends stands for several messages
    whole_bytes = profile_model(learner.model).param_bytes * learner.stands_for
    trained = _train(where, learning, seed, constant=True)
    rows = trained.transfers.filter(topic="gradient").with_columns(
        percent=100 * pl.col("bytes") / whole_bytes
    )
    return [
        {**row, "mbps": Schedule.of(where.mbps[row["target"]]).at(row["at_s"])}
        for row in rows.to_dicts()
    ]
