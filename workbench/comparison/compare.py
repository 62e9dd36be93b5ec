"""All methods of training one model on one cluster: the table, and the answer in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl

from workbench.clusters import Cluster
from workbench.comparison import table
from workbench.comparison.measured import AT_MOST_S, measured
from workbench.comparison.memory import memory_of
from workbench.comparison.methods import EQUAL, METHODS, Method, Plan, plans
from workbench.comparison.problem import Problem
from workbench.comparison.smaller import SmallerBatches, smaller_batches
from workbench.comparison.threshold import Threshold, threshold
from workbench.profiles import LayerTimes, ModelProfile, profile_model
from workbench.profiles.graph import uses_batch_statistics
from workbench.profiles.inputs import InputShape
from workbench.profiles.layers import find_layers
from workbench.profiles.tracing import follow
from workbench.runtime import progress
from workbench.utils.checks import UserError, check_name
from workbench.utils.numbers import percent, three_digits

if TYPE_CHECKING:
    import torch

TIE = 1.005
"""Ratio of rates below which two methods tie."""

MEASURED = 4
"""Number of methods that are measured by default."""

SPLIT = (
    "Pipelines alone split a batch into micro-batches by themselves, so the order depends on the "
    "batch size, here {size}."
)


@dataclass(frozen=True, eq=False)
class Comparison:
    """All methods of training a model on a cluster.

    Attributes
    ----------
    problem
        The model and the cluster.
    plans
        Method -> its fastest plan, or the reason why it cannot be used.
    frame
        A row for each method: first those whose updates equal SGD's, then the others; in each group
        those that learn from all samples first, then by speed; last, with a ``reason``, those that
        cannot be used here.
        ``samples_per_s`` is simulated; its 90 % interval goes from ``low_samples_per_s`` to
        ``high_samples_per_s``, and ``too_close`` names the methods that it is too close to call
        with (`workbench.comparison.intervals`). ``predicted_samples_per_s`` is what the cost model
        of the method's paper says, if it has one. ``over_one_node`` is the rate over that of the
        method ``"one node"``, which learns from its own samples. ``samples_share`` is the share of
        all samples that a method learns from; ``samples_per_step`` are those of a step of SGD, null
        where nodes step each for itself. ``where`` says which node has which role, ``assumes`` what
        was assumed or left out. ``memory_bytes`` is the peak of ``memory_node``, the node that a
        step fills most. ``fits`` is false where a node has less memory than it needs, and null
        where one does not state its memory while all others fit. `memory.fit` says how a step fits
        into less, by recomputation, and what that costs.
    """

    problem: Problem
    plans: Mapping[str, Plan | str]
    frame: pl.DataFrame

    @property
    def method(self) -> str | None:
        """The fastest method that equals SGD on all samples and fits in memory, or None."""
        return None if self._candidates.is_empty() else self._candidates["method"][0]

    @property
    def system(self) -> str | None:
        """The system of `method`."""
        return None if self.method is None else METHODS[self.method].system

    @cached_property
    def threshold(self) -> Threshold | None:
        """Bandwidth of the busiest link of `method` at which another system becomes the fastest.

        Each system counts with its fastest method.
        """
        fastest = self._candidates.unique("system", keep="first", maintain_order=True)["method"]
        if len(fastest) < 2:
            return None
        plans = {name: self.plans[name] for name in fastest}
        return threshold(
            self.problem, {name: plan for name, plan in plans.items() if isinstance(plan, Plan)}
        )

    @cached_property
    def smaller_batches(self) -> SmallerBatches | None:
        """The largest batches, accumulated to the same step, with which another method fits.

        By memory alone, before planning; None where all methods fit as it is, or none would.
        """
        return smaller_batches(self.problem, self._unfit) if self._unfit else None

    @property
    def _candidates(self) -> pl.DataFrame:
        """Methods that equal SGD on all samples, can be used and fit, the fastest first."""
        return table.equal_to_sgd(self.frame).filter(pl.col("fits").fill_null(True))

    @property
    def _unfit(self) -> list[str]:
        """Methods that equal SGD on all samples, and for which a node lacks memory."""
        return table.equal_to_sgd(self.frame).filter(~pl.col("fits"))["method"].to_list()

    def best(self) -> pl.DataFrame:
        """The best method of each kind; see `table.best`."""
        return table.best(self.frame)

    def measure(
        self,
        methods: Collection[str] = (),
        *,
        at_most_s: float = AT_MOST_S,
        say: Callable[[str], object] = lambda line: None,
    ) -> pl.DataFrame:
        """Run methods as real processes, without learning; by default the best of each kind.

        Parameters
        ----------
        methods
            Names in `METHODS`.
        at_most_s
            Limit on the seconds of a method; those that take longer are not measured.
        say
            Called with lines on what is being measured, and how long it will take.

        Returns
        -------
        polars.DataFrame
            A row for each: ``method, simulated_samples_per_s, measured_samples_per_s, iterations,
            deadlines, late, steal, reason``; see `workbench.comparison.measured.measured`.

        Raises
        ------
        UserError
            An unknown method; measured runs without Ray.
        """
        names = [check_name("method", method, METHODS) for method in methods]
        if not names:
            planned = {name: plan for name, plan in self.plans.items() if isinstance(plan, Plan)}
            best = [name for name in self.best()["method"] if planned[name].phases]
            names = best[:MEASURED]
        return measured(self.problem, {name: self.plans[name] for name in names}, at_most_s, say)

    def explain(self, method: str) -> str:
        """Explain where a method runs, what limits it and what is assumed, a line for each."""
        name = check_name("method", method, METHODS)
        return table.explanation(self.frame.row(by_predicate=pl.col("method") == name, named=True))

    def __str__(self) -> str:
        """The answer: the fastest method, what limits it, and where another overtakes it."""
        candidates, unfit, smaller = self._candidates, self._unfit, str(self.smaller_batches or "")
        if candidates.is_empty():
            none = (
                "No method that equals SGD on all samples can be used here and fits in memory; "
                "in Python, memory.fit recomputes parts of a step so that it fits into less."
            )
            return f"{none} {smaller}".strip()
        first = candidates.row(0, named=True)
        lacking = (
            f"{len(unfit)} other methods that equal SGD do not fit in memory." if unfit else ""
        )
        sentences = [
            *lead(candidates, f" ({first['where']})" if first["where"] else ""),
            lacking if unfit else "",
            smaller,
            self._batch_matters(),
            self._uncached(),
            str(self.threshold or ""),
            self._faster(first),
        ]
        return " ".join(filter(None, sentences))

    def _batch_matters(self) -> str:
        """Say that the batch size matters, where a pipeline is one of the two fastest systems."""
        systems = self._candidates["system"].unique(maintain_order=True)[:2]
        return SPLIT.format(size=self.problem.batch_size) if "pipeline" in systems else ""

    def _uncached(self) -> str:
        """Name the methods that do not keep the activations of frozen layers."""
        if not self.problem.cache_frozen:
            return ""
        others = [method for method in METHODS.values() if not method.keeps_samples]
        names = dict.fromkeys(
            method.name if method.system == "one node" else method.system for method in others
        )
        return f"These methods compute the frozen layers in every epoch: {'; '.join(names)}."

    def _faster(self, fastest: Mapping[str, Any]) -> str:
        """Sentences on what is faster with other updates, or on some of the samples."""
        usable = self.frame.filter(pl.col("reason").is_null() & pl.col("fits").fill_null(True))
        exact = pl.col("update") == EQUAL
        kinds = {
            "If updates may differ": usable.filter(~exact),
            "On some of the samples": usable.filter(exact & (pl.col("samples_share") < 1)),
        }
        sentences = []
        for condition, methods in kinds.items():
            if len(methods):
                best = methods.row(int(methods["samples_per_s"].arg_max() or 0), named=True)
                ratio = best["samples_per_s"] / fastest["samples_per_s"]
                share = f" ({percent(best['samples_share'])})" if best["samples_share"] < 1 else ""
                if ratio > 1 and best["method"] not in close_to(fastest):
                    label = METHODS[best["method"]].label
                    times = three_digits(ratio)
                    sentences.append(f"{condition}, {label}{share} is {times} x as fast.")
        return " ".join(sentences)


def compare(
    model: str | torch.nn.Module | ModelProfile,
    cluster: Cluster,
    batch_size: int = 32,
    *,
    input_shape: InputShape | None = None,
    input_dtype: str | None = None,
    times: Mapping[str, LayerTimes] | None = None,
    epochs: int = 10,
    accumulate: int = 1,
    cache_frozen: bool = False,
) -> Comparison:
    """Compare all methods of training a model on a cluster.

    Each plans for the cluster; then its programs run in virtual time, without learning.

    Parameters
    ----------
    model, input_shape, input_dtype
        A name of the zoo, a module with the shape of one sample, or a profile.
    cluster
        Nodes with ``flops_per_s``, and links, such as `load_cluster` reads.
    batch_size
        Samples of each worker in an iteration.
    times
        Node name -> its measured seconds by layer, used in place of its ``flops_per_s``.
    epochs
        Length of the training over which rates are means: samples that are sent once are sent in
        the first epoch.
    accumulate
        Batches of each worker in a step, whose gradients are added up: a step sends as many bytes
        and needs as much memory as that of one batch, and learns from as many times the samples.
        Methods whose updates differ from SGD's take a step for every batch.
    cache_frozen
        Whether the activations behind the frozen layers at the front are computed in the first
        epoch and kept, by methods whose nodes learn from the same samples in every epoch. Put these
        layers in eval mode if they have dropout or batch normalisation. Memory does not count what
        is kept, which may be on disk; ``assumes`` says how much it is.

    Returns
    -------
    Comparison
        Its ``frame`` has a row for each method; ``str()`` of it is the answer.

    Raises
    ------
    UserError
        A node without speed, times of other layers, a model that cannot be profiled;
        `cache_frozen` without a frozen layer at the front, or with one that draws random numbers or
        computes statistics of a batch, which a profile does not show.
    """
    profile = model
    if not isinstance(profile, ModelProfile):
        profile = profile_model(profile, input_shape, input_dtype=input_dtype)
    memory = memory_of(model, input_shape, input_dtype)
    problem = Problem(profile, cluster, batch_size, times, memory, epochs, accumulate, cache_frozen)
    if cache_frozen and not isinstance(model, ModelProfile):
        _check_unchanging(model, input_shape, input_dtype)
    return compared(problem)


def _check_unchanging(
    model: str | torch.nn.Module, input_shape: InputShape | None, input_dtype: str | None
) -> None:
    """Refuse frozen layers at the front whose activations change from epoch to epoch."""
    graph = follow(model, input_shape, input_dtype=input_dtype, own_modes=True)
    layers = find_layers(graph)
    first_trained = next(number for number, own in enumerate(layers.trained, 1) if own)
    for operator, layer in zip(graph.operators, layers.of_operators, strict=True):
        if layer < first_trained and (operator.is_random or uses_batch_statistics(operator)):
            does = "draws random numbers" if operator.is_random else "normalises by its batch"
            raise UserError(
                "cache_frozen keeps the activations behind frozen layers, but layer "
                f"{layers.names[layer - 1]} {does} ({operator.name}), so they change from epoch to "
                "epoch; put the frozen layers in eval mode, or leave cache_frozen out"
            )


def compared(problem: Problem, methods: Sequence[Method] = tuple(METHODS.values())) -> Comparison:
    """Compare methods of training; see `compare`."""
    planned = list[tuple[Method, Plan | str]]()
    with progress.steps("comparing", len(methods)) as step:
        for method in methods:
            step(method.name)
            planned += plans(problem, [method])
    by_name = {method.name: plan for method, plan in planned}
    return Comparison(problem, by_name, table.frame(problem, planned))


def lead(usable: pl.DataFrame, where: str = "") -> tuple[str, str]:
    """Say which method is the fastest and what limits it; and how far it is ahead of others.

    A method that is ahead by less than its margin comes first, but is not called the fastest.
    `usable` has the methods in order, the fastest first; the runner-up is of another system.
    """
    first = usable.row(0, named=True)
    limit, label = first["limited_by"], METHODS[first["method"]].label
    bottleneck = f"the {limit}" if limit.startswith("link ") else limit
    close = close_to(first)
    place = "comes first" if close & {*usable["method"]} else "is the fastest"
    fastest = (
        f"{label[0].upper()}{label[1:]}{where} {place}: {bottleneck} is busy for "
        f"{percent(first['busy_share'])} of the time."
    )
    others = usable.filter(pl.col("system") != first["system"])
    if others.is_empty():
        return fastest, ""
    method, rate = others.select("method", "samples_per_s").row(0)
    ratio = first["samples_per_s"] / rate
    times = f"{three_digits(ratio)} x " if ratio >= TIE else ""
    open_order = " (too close to call)" if method in close else ""
    return (
        fastest,
        f"It is {times}as fast as the runner-up, {METHODS[method].label}{open_order}.",
    )


def close_to(row: Mapping[str, Any]) -> set[str]:
    """Methods that are too close to call with the one of a row."""
    return set(row["too_close"].split("; "))
