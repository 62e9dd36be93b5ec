"""All ways of training one model on one cluster, as a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from workbench.clusters import Cluster
from workbench.comparison.measured import AT_MOST_S, Measuring, measured
from workbench.comparison.memory import memory_of
from workbench.comparison.question import Question
from workbench.comparison.use import Use, carried, limit
from workbench.comparison.ways import EQUAL, WAYS, Option, Way, options
from workbench.graphs.inputs import InputShape
from workbench.profiles import LayerTimes, ModelProfile, profile_model
from workbench.runtime import progress
from workbench.utils.checks import UserError, check_name

if TYPE_CHECKING:
    import torch

SCHEMA: dict[str, Any] = {
    "way": pl.String,
    "system": pl.String,
    "update": pl.String,
    "samples_per_s": pl.Float64,
    "simulated_samples_per_s": pl.Float64,
    "over_one_node": pl.Float64,
    "samples_share": pl.Float64,
    "bytes_per_sample": pl.Float64,
    "busiest_link": pl.String,
    "busiest_link_bytes_per_sample": pl.Float64,
    "limited_by": pl.String,
    "busy_share": pl.Float64,
    "waiting_share": pl.Float64,
    "memory_node": pl.String,
    "memory_bytes": pl.Float64,
    "recomputation_s": pl.Float64,
    "fits": pl.Boolean,
    "raw_samples_move": pl.Boolean,
    "survives_a_node": pl.Boolean,
    "joules_per_1000_samples": pl.Float64,
    "price_per_1000_samples": pl.Float64,
    "where": pl.String,
    "assumes": pl.String,
    "reason": pl.String,
}


def compare(
    model: str | torch.nn.Module | ModelProfile,
    cluster: Cluster,
    batch_size: int = 32,
    *,
    input_shape: InputShape | None = None,
    input_dtype: str | None = None,
    times: Mapping[str, LayerTimes] | None = None,
    epochs: int = 10,
    simulate: bool = False,
    measure: bool | Collection[str] = False,
    measure_at_most_s: float = AT_MOST_S,
) -> pl.DataFrame:
    """Compare all ways of training a model on a cluster.

    Parameters
    ----------
    model, input_shape, input_dtype
        A name of the zoo, a module with the shape of one sample, or a profile.
    cluster
        Nodes with ``flops_per_s``, and links, such as `load_cluster` reads.
    batch_size
        Samples of each worker in an iteration.
    times
        Measured seconds by layer, by the name of a node, in place of its ``flops_per_s``.
    epochs
        Length of the training that rates are means over: samples that are sent once are sent in the
        first epoch.
    simulate
        Whether to run each way's programs as well, without learning, on the cluster.
    measure
        Whether to run the best ways' programs as real processes (see `runtime.measured.measure`),
        or the names of ways to run: messages have their sizes, computing is waiting. This takes
        some seconds a way, or some iterations of slow ways.
    measure_at_most_s
        Seconds of a way; those that take longer are not measured.

    Returns
    -------
    polars.DataFrame
        A row for each way: first those whose updates equal SGD's, then the others; in each group
        those that learn from all samples first, then by speed; last, with a ``reason``, those that
        cannot be used here.
        ``samples_share`` is the share of all samples that a way learns from; ``where`` says which
        node has which role; ``assumes`` what was assumed or left out; ``over_one_node`` is over the
        way ``"one node"``, which learns from its own samples.
        ``memory_bytes`` is the peak of ``memory_node``, the node that a step without recomputation
        fills most. Where it does not fit, some results are computed again, which takes
        ``recomputation_s`` of the node's seconds for each of its batches; rates include them.
        ``fits`` is false where no such plan was found, and null where a node that takes part does
        not state its memory while all others fit.
        With `measure` columns are added, null for other ways: ``measured_samples_per_s`` and
        ``simulated_samples_per_s`` of the same ``measured_iterations``; how many ``deadlines``,
        ends of messages and of computing, were ``late`` by over 1 ms; ``steal``, the share of the
        machine's time that others took; ``measured_note``, why a way was not measured, what was
        left out, or that the machine disturbed it.

    Raises
    ------
    UserError
        A node without speed, times of other layers, a model that cannot be profiled; `measure`
        without Ray.
    """
    measuring = measuring_of(measure, measure_at_most_s)
    asked = question_of(
        model, cluster, batch_size, (input_shape, input_dtype), times, epochs=epochs
    )
    return table(asked, simulate=simulate, measuring=measuring)


def measuring_of(
    measure: bool | Collection[str],
    at_most_s: float,
    say: Callable[[str], object] = lambda line: None,
) -> Measuring | None:
    """Which ways to measure, if any."""
    if measure is False:
        return None
    names = isinstance(measure, Collection) and not isinstance(measure, str) and len(measure)
    if measure is not True and not names:
        raise UserError(f"measure is {measure!r}; give True, False, or a list of names of ways")
    ways = () if isinstance(measure, bool) else tuple(measure)
    for name in ways:
        check_name("way", name, WAYS)
    return Measuring(ways, at_most_s, say)


def question_of(
    model: str | torch.nn.Module | ModelProfile,
    cluster: Cluster,
    batch_size: int,
    inputs: tuple[InputShape | None, str | None],
    times: Mapping[str, LayerTimes] | None,
    *,
    epochs: int,
) -> Question:
    """What is asked, as a value; `inputs` are shape and type, other parameters as for `compare`."""
    shape, dtype = inputs
    profile = model
    if not isinstance(profile, ModelProfile):
        profile = profile_model(profile, shape, input_dtype=dtype)
    return Question(profile, cluster, batch_size, times, memory_of(model, shape, dtype), epochs)


def table(
    question: Question, *, simulate: bool = False, measuring: Measuring | None = None
) -> pl.DataFrame:
    """All ways, a row each; see `compare`."""
    found = list[tuple[Way, Option | str]]()
    with progress.steps("comparing", len(WAYS)) as step:
        for way in WAYS.values():
            step(way.name)
            found += options(question, [way])
    rows = [_row(question, *each, simulate) for each in found]
    frame = pl.DataFrame(rows, schema=SCHEMA)
    alone = frame.filter(way="one node")["samples_per_s"].item()
    frame = frame.with_columns(over_one_node=pl.col("samples_per_s") / alone).sort(
        pl.col("reason").is_not_null(),
        pl.col("update") != EQUAL,
        pl.col("samples_share") < 1,
        pl.col("samples_per_s").round_sig_figs(9),
        descending=[False, False, False, True],
        nulls_last=True,
        maintain_order=True,
    )
    if measuring is None:
        return frame
    usable = {way.name: option for way, option in found if isinstance(option, Option)}
    of_ways = measured(question, frame, usable, measuring)
    joined = frame.join(of_ways, on="way", how="left", maintain_order="left", suffix="_again")
    again = pl.col("simulated_samples_per_s_again")
    return joined.with_columns(
        simulated_samples_per_s=pl.coalesce(again, "simulated_samples_per_s")
    ).drop("simulated_samples_per_s_again")


def _row(question: Question, way: Way, option: Option | str, simulate: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "way": way.name,
        "system": way.system,
        "update": way.update,
        "raw_samples_move": way.moves_samples,
        "survives_a_node": way.survives,
    }
    if isinstance(option, str):
        return row | {"reason": option}
    use = option.use
    sizes = {hop: size for hop, (size, _) in carried(question, use).items()}
    most, assumes = limit(question, use), option.assumes + question.assumes(option.learns_from)
    if most.share > 1 + 1e-6:
        assumes += (f"{most.what} carries less than is sent, so messages arrive later and later",)
    row |= {
        "samples_per_s": use.samples_per_s,
        "samples_share": question.share(option.learns_from),
        "bytes_per_sample": sum(sizes.values()) / use.samples,
        "limited_by": most.what,
        "busy_share": min(most.share, 1.0),
        "waiting_share": use.waiting_share,
        "where": option.where,
        "assumes": "; ".join(assumes),
    }
    if sizes:
        a, b = max(sizes, key=lambda hop: sizes[hop])
        names = question.cluster.names
        row["busiest_link"] = f"{names[a]} to {names[b]}"
        row["busiest_link_bytes_per_sample"] = sizes[a, b] / use.samples
    if simulate:
        row["simulated_samples_per_s"] = option.simulate().samples_per_s
    return row | memory(question, option) | _expenses(question, use)


def memory(question: Question, option: Option) -> dict[str, Any]:
    """Peak of the fullest node, the one that is fullest or least large enough by itself.

    Unless a way says otherwise, a node needs what a step of the whole model needs with its samples;
    a server, which learns from none, keeps parameters and their gradients.
    """
    if option.memory is not None:
        held = dict(option.memory)
    else:
        found = {
            node: question.node_memory(node, count, serves=node == option.server)
            for node, count in option.batches.items()
        }
        held = {node: one for node, one in found.items() if one is not None}
    if not held:
        return {}
    nodes = question.cluster.nodes

    def fullness(node: int) -> tuple[float, float]:
        once_bytes = held[node].once_bytes
        return once_bytes / (nodes[node].memory_bytes or math.inf), once_bytes

    fullest = max(held, key=fullness)
    fits = {one.fits for one in held.values()}
    return {
        "memory_node": nodes[fullest].name,
        "memory_bytes": held[fullest].needed_bytes,
        "recomputation_s": held[fullest].recomputation_s,
        "fits": False if False in fits else None if None in fits else True,
    }


def fits(question: Question, option: Option) -> bool:
    """Whether memory does not rule it out."""
    return memory(question, option).get("fits") is not False


def _expenses(question: Question, use: Use) -> dict[str, Any]:
    """Joules and money of the nodes that compute, send or receive, for a thousand samples."""
    part = {*use.busy_s, *(node for pair in use.link_bytes for node in pair)}
    nodes = [question.cluster.nodes[node] for node in sorted(part)]
    seconds = 1000 / use.samples_per_s
    found: dict[str, Any] = {}
    if all(node.watts for node in nodes):
        found["joules_per_1000_samples"] = seconds * sum(node.watts or 0.0 for node in nodes)
    if all(node.price_per_hour is not None for node in nodes):
        price = sum(node.price_per_hour or 0.0 for node in nodes)
        found["price_per_1000_samples"] = seconds / 3600 * price
    return found
