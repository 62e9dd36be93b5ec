"""Training by methods whose updates differ from SGD's, each by its own system.

Where every node has a model, each model is evaluated by itself, as in the systems' papers: a row is
the mean over the nodes of their newest evaluations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from workbench import decentralised, dlion, edgegossip, pipelines
from workbench.comparison.learning.task import PER_EPOCH
from workbench.comparison.learning.trial import Trial, finished, own_models
from workbench.comparison.methods import fedavg, pipedream, rounds
from workbench.decentralised import EXCHANGES, GoSgd, Gossip, MakeExchange, ring
from workbench.edgegossip.prediction.predictor import Predictor
from workbench.edgegossip.programs.trainer import has_means

if TYPE_CHECKING:
    from workbench.training import Trained

UNSLOWED = Predictor("linear", 1, 1.0, 1.0, (0.0, 0.0, 0.0), baseline_s=1.0)
"""Slowdown of a node on which nothing else runs."""


def train(trial: Trial) -> pl.DataFrame:
    """Train a method by its system; return the evaluations, in the columns of `CURVE`.

    Raises TrainingError: the loss is no longer finite, or all nodes wait.
    """
    return TRAININGS[trial.method.name](trial)


def of_peers(trial: Trial, how: dlion.System | MakeExchange) -> pl.DataFrame:
    """Train by a system that exchanges gradients, such as DLion, or by an exchange of models."""
    problem, nodes = trial.task.problem, trial.nodes
    own_s = [problem.batch_s(node) for node in nodes]
    batch, workers = problem.batch_size, len(nodes)
    per_epoch = trial.task.samples / (batch * workers)
    setup = dlion.Setup(
        **trial.shared(),
        cluster=trial.cluster(nodes, [min(own_s) / seconds for seconds in own_s]),
        sample_s=min(own_s) / batch,
        local_batch=batch,
        shards=trial.shards,
        sgd=trial.task.sgd(workers if isinstance(how, dlion.System) else 1),
        first_weights="shared",
        evaluate_every=max(1, round(per_epoch / PER_EPOCH)),
        patience_s=trial.patience_s,
    )
    trained = trial.train(setup, how)
    return own_models(
        trial,
        _evaluations(trial, trained.evaluations, "at_s", "node", "loss"),
        trained.iterations.select("at_s", "samples").iter_rows(),
        trained,
    )


def of_gossip(trial: Trial, exchange: Callable[[int], MakeExchange]) -> pl.DataFrame:
    """Train by epochs with an exchange of models, which is made for the number of nodes."""
    setup = decentralised.GossipSetup(
        **trial.shared(),
        **_exchange(trial),
        cluster=trial.cluster(trial.nodes),
        sample_s=_sample_s(trial),
        exchange=exchange(len(trial.nodes)),
    )
    return _of_epochs(trial, trial.train(setup, None))


def of_edgegossip(trial: Trial) -> pl.DataFrame:
    """Train by EdgeGossip, on nodes that nothing else uses.

    Samples that have no means, such as tokens, are chosen by their own losses.
    """
    cluster = trial.cluster(trial.nodes)
    platforms = [
        edgegossip.Platform(name, replace(UNSLOWED, baseline_s=seconds))
        for name, seconds in zip(cluster.names, _sample_s(trial), strict=True)
    ]
    setup = edgegossip.Setup(
        **trial.shared(),
        **_exchange(trial),
        platforms=platforms,
        cluster=cluster,
        exchange=Gossip(ring(len(trial.nodes))),
    )
    how = edgegossip.EdgeGossip(
        strategy="accuracy_aware" if has_means(setup.dataset) else "importance",
        ratio=rounds.RATIO,
        forward_share=rounds.FORWARD_SHARE,
    )
    return _of_epochs(trial, trial.train(setup, how))


def of_fedavg(trial: Trial) -> pl.DataFrame:
    """Train by federated averaging, with the plan's server."""
    problem, server = trial.task.problem, trial.plan.server
    assert server is not None
    nodes = list(trial.plan.phases[0].nodes)
    shards = dict(zip(trial.nodes, trial.shards, strict=True))
    clients = [node for node in nodes if node in shards]
    first = trial.first()
    setup = fedavg.Setup(
        **trial.shared(),
        sgd=trial.task.sgd(),
        batch_size=problem.batch_size,
        shards=[shards[node] for node in clients],
        cluster=trial.cluster(nodes),
        server=nodes.index(server),
        round_s=[rounds.epoch_s(problem, node, len(shards[node])) for node in clients],
    )
    trained = trial.train(setup, None)
    epochs = trained.epochs
    rows = [(0.0, *first), *_evaluations(trial, epochs, "at_s", "test_loss")]
    return finished(trial, rows, epochs.select("at_s", "samples").iter_rows(), trained, nodes)


def of_pipedream(trial: Trial) -> pl.DataFrame:
    """Train in the plan's pipeline without a flush, each batch a step with stashed weights."""
    found = next(
        each for each in pipedream.unflushed(trial.task.problem) if each.where == trial.plan.where
    )
    nodes = list(trial.plan.phases[0].nodes)  # with owners of samples that have no stage
    problem, plan = found.placed(nodes)
    setup = pipelines.Setup(
        **trial.shared(),
        problem=problem,
        flushes=False,
        cluster=trial.cluster(nodes, [1.0] * len(nodes)),
        sgd=trial.task.sgd(),
    )
    epochs = (trained := trial.train(setup, plan)).epochs
    rows = [(0.0, *trial.first()), *_evaluations(trial, epochs, "at_s", "test_loss")]
    samples = np.diff(setup.epoch_ends, prepend=0) * setup.samples_per_batch
    learnt = list(zip(epochs["at_s"], samples.tolist(), strict=True))
    return finished(trial, rows, learnt, trained, nodes)


def _exchange(trial: Trial) -> dict[str, Any]:
    return {
        "shards": trial.shards,
        "batch_size": trial.task.problem.batch_size,
        "sgd": trial.task.sgd(),
        "patience_s": trial.patience_s,
    }


def _sample_s(trial: Trial) -> list[float]:
    """Seconds of each node for a sample of a batch, with its part of the update."""
    problem = trial.task.problem
    return [problem.batch_s(node) / problem.batch_size for node in trial.nodes]


def _evaluations(trial: Trial, frame: pl.DataFrame, *columns: str) -> Iterator[Any]:
    """Rows of these columns and of the metric, which is NaN where there is none."""
    name = trial.task.objective.shown or ""
    metric = pl.col(name) if name in frame.columns else pl.lit(math.nan).alias("metric")
    return frame.select(*columns, metric).iter_rows()


def _of_epochs(trial: Trial, trained: Trained[Any]) -> pl.DataFrame:
    epochs = trained.epochs
    return own_models(
        trial,
        _evaluations(trial, epochs, "at_s", "node", "test_loss"),
        epochs.select("at_s", "samples").iter_rows(),
        trained,
    )


PEERS: dict[str, dlion.System | MakeExchange] = {**EXCHANGES, **dlion.SYSTEMS}

TRAININGS: Mapping[str, Callable[[Trial], pl.DataFrame]] = {
    **{name: partial(of_peers, how=how) for name, how in PEERS.items()},
    "gossip": partial(of_gossip, exchange=lambda nodes: Gossip(ring(nodes))),
    "gosgd": partial(of_gossip, exchange=lambda nodes: GoSgd(rounds.GOSGD_PROBABILITY)),
    "edgegossip": of_edgegossip,
    "fedavg": of_fedavg,
    "pipeline, pipedream": of_pipedream,
}
"""Training by a method's own system, by the method's name."""
