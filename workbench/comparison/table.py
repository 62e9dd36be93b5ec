"""The table of a comparison: a row for each method, and the best method of each kind."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from workbench.comparison.cost import Cost, carried, limit
from workbench.comparison.intervals import kinds_of, with_intervals
from workbench.comparison.methods import METHODS
from workbench.comparison.methods.method import EQUAL, STEPS, Method, Plan
from workbench.comparison.problem import Problem
from workbench.utils.numbers import bytes_as_text, percent, three_digits

SCHEMA: dict[str, Any] = {
    "method": pl.String,
    "system": pl.String,
    "update": pl.String,
    "samples_per_s": pl.Float64,
    "low_samples_per_s": pl.Float64,
    "high_samples_per_s": pl.Float64,
    "too_close": pl.String,
    "predicted_samples_per_s": pl.Float64,
    "over_one_node": pl.Float64,
    "samples_share": pl.Float64,
    "samples_per_step": pl.Float64,
    "bytes_per_sample": pl.Float64,
    "busiest_link": pl.String,
    "busiest_link_bytes_per_sample": pl.Float64,
    "limited_by": pl.String,
    "busy_share": pl.Float64,
    "waiting_share": pl.Float64,
    "memory_node": pl.String,
    "memory_bytes": pl.Float64,
    "fits": pl.Boolean,
    "raw_samples_move": pl.Boolean,
    "survives_a_node": pl.Boolean,
    "joules_per_1000_samples": pl.Float64,
    "price_per_1000_samples": pl.Float64,
    "where": pl.String,
    "assumes": pl.String,
    "reason": pl.String,
}

LATER = "messages arrive later and later"
"""What a method gives up that sends more than a link carries, and does not wait for it."""

KINDS = ("equal to SGD, all samples", "equal to SGD, some samples", "other updates")
_EXACT = pl.col("update") == EQUAL
KIND = (
    pl.when(_EXACT & (pl.col("samples_share") == 1))
    .then(pl.lit(KINDS[0]))
    .when(_EXACT)
    .then(pl.lit(KINDS[1]))
    .otherwise(pl.lit(KINDS[2]))
    .cast(pl.Enum(KINDS))
)
"""Kind of a method; rates of one kind compare."""

WITHIN = 100
"""Ratio to the fastest rate of a kind beyond which slower methods are not shown."""

ALIKE = 1.02
"""Ratio of rates up to which methods of one system and kind share a row."""

MOST_ROWS = 14


def frame(problem: Problem, planned: Iterable[tuple[Method, Plan | str]]) -> pl.DataFrame:
    """A row for each method, in the order that `Comparison` describes."""
    planned = list(planned)
    rows = pl.DataFrame([_row(problem, method, plan) for method, plan in planned], schema=SCHEMA)
    kinds = {
        method.name: kinds_of(method, timed=is_timed(problem, plan.cost))
        for method, plan in planned
        if isinstance(plan, Plan)
    }
    alone = rows.filter(pl.col("fits").fill_null(True), method="one node")["samples_per_s"]
    over = pl.col("samples_per_s") / alone.item() if len(alone) else pl.lit(None, pl.Float64)
    return with_intervals(rows.with_columns(over_one_node=over), kinds).sort(
        pl.col("reason").is_not_null(),
        KIND,
        pl.col("samples_per_s").round_sig_figs(9),
        descending=[False, False, True],
        nulls_last=True,
        maintain_order=True,
    )


def is_timed(problem: Problem, cost: Cost) -> bool:
    """Whether layer times of all nodes that compute were measured."""
    names = problem.cluster.names
    return all(names[node] in (problem.times or {}) for node in cost.busy_s)


def equal_to_sgd(rows: pl.DataFrame) -> pl.DataFrame:
    """Methods that equal SGD on all samples and can be used."""
    return rows.filter(pl.col("reason").is_null(), KIND.eq(KINDS[0]))


def best(rows: pl.DataFrame) -> pl.DataFrame:
    """The best method of each system and kind, with the number of others about as fast.

    Left out are methods that do not fit, those over `WITHIN` times as slow as the fastest of their
    kind, and those beyond `MOST_ROWS`, of which methods that equal SGD are the last to go. The last
    column, ``alike``, counts the others up to `ALIKE` times as slow.
    """
    rate = pl.col("samples_per_s")
    ranked = rows.filter(pl.col("reason").is_null() & pl.col("fits").fill_null(True)).with_columns(
        alike=(rate * ALIKE >= rate.max()).sum().over("system", KIND).cast(pl.Int64) - 1,
        near=rate * WITHIN >= rate.max().over(KIND),
        first=rate.rank("ordinal", descending=True).over("system", KIND) == 1,
    )
    first = ranked.filter("first", "near").drop("first", "near")
    shown = first.sort(KIND.eq(KINDS[2]), -rate, maintain_order=True).head(MOST_ROWS)["method"]
    return first.filter(pl.col("method").is_in(shown.implode()))


def _row(problem: Problem, method: Method, plan: Plan | str) -> dict[str, Any]:
    row: dict[str, Any] = {
        "method": method.name,
        "system": method.system,
        "update": method.update,
        "raw_samples_move": method.moves_samples,
        "survives_a_node": method.survives,
    }
    if isinstance(plan, str):
        return row | {"reason": plan}
    cost = plan.cost
    sizes = {hop: size for hop, (size, _) in carried(problem, cost).items()}
    most, assumes = limit(problem, cost), plan.assumes + problem.assumes(plan.learns_from)
    if plan.accumulates < problem.accumulate:
        assumes += (f"gradients are not accumulated: batches have {problem.batch_size} samples",)
    if most.share > 1 + 1e-6:
        assumes += (f"{most.what} carries less than is sent, so {LATER}",)
    row |= {
        "samples_per_s": cost.samples_per_s,
        "predicted_samples_per_s": plan.predicted_s and cost.samples / plan.predicted_s,
        "samples_share": problem.share(plan.learns_from),
        "samples_per_step": float(f"{cost.samples:.9g}") if method.update in STEPS else None,
        "bytes_per_sample": sum(sizes.values()) / cost.samples,
        "limited_by": most.what,
        "busy_share": min(most.share, 1.0),
        "waiting_share": cost.waiting_share,
        "where": plan.where,
        "assumes": "; ".join(assumes),
    }
    if sizes:
        a, b = max(sizes, key=lambda hop: sizes[hop])
        names = problem.cluster.names
        row["busiest_link"] = f"{names[a]} to {names[b]}"
        row["busiest_link_bytes_per_sample"] = sizes[a, b] / cost.samples
    return row | memory(problem, plan) | _expenses(problem, cost)


def memory(problem: Problem, plan: Plan) -> dict[str, Any]:
    """Peak memory of the node that a step fills most, and whether all nodes have theirs.

    Unless the plan states memory, a node needs that of a step of the whole model on its batch; see
    `Problem.needed_bytes` for servers.
    """
    if plan.memory is not None:
        held = dict(plan.memory)
    else:
        by_node = {
            node: problem.node_memory(node, count, serves=node == plan.server)
            for node, count in plan.batches.items()
        }
        held = {node: need for node, need in by_node.items() if need is not None}
    if not held:
        return {}
    nodes = problem.cluster.nodes

    def fullness(node: int) -> tuple[float, float]:
        needed_bytes = held[node].needed_bytes
        return needed_bytes / (nodes[node].memory_bytes or math.inf), needed_bytes

    fullest = max(held, key=fullness)
    fits = {need.fits for need in held.values()}
    return {
        "memory_node": nodes[fullest].name,
        "memory_bytes": held[fullest].needed_bytes,
        "fits": False if False in fits else None if None in fits else True,
    }


def qualifies(problem: Problem, plan: Plan) -> bool:
    """Whether a plan learns from all samples and fits into memory, or may."""
    fits = memory(problem, plan).get("fits") is not False
    return fits and problem.share(plan.learns_from) == 1


def _expenses(problem: Problem, cost: Cost) -> dict[str, Any]:
    """Joules and price of a thousand samples, of the nodes that compute, send or receive."""
    active = {*cost.busy_s, *(node for pair in cost.link_bytes for node in pair)}
    nodes = [problem.cluster.nodes[node] for node in sorted(active)]
    seconds = 1000 / cost.samples_per_s
    expenses: dict[str, Any] = {}
    if all(node.watts for node in nodes):
        expenses["joules_per_1000_samples"] = seconds * sum(node.watts or 0.0 for node in nodes)
    if all(node.price_per_hour is not None for node in nodes):
        price = sum(node.price_per_hour or 0.0 for node in nodes)
        expenses["price_per_1000_samples"] = seconds / 3600 * price
    return expenses


def explanation(row: Mapping[str, Any]) -> str:
    """Where a method runs, what limits it and what is assumed, a line for each."""
    method, title = row["method"], METHODS[row["method"]].title
    if row["reason"] is not None:
        return f"{method}, of {row['system']}, cannot be used here: {row['reason']}"
    memory, predicted = row["memory_bytes"], row["predicted_samples_per_s"]
    lacks = ", which has less" if row["fits"] is False else ""
    low, high = (three_digits(row[f"{end}_samples_per_s"]) for end in ("low", "high"))
    facts = {
        "is": title,
        "update": row["update"],
        "runs": row["where"],
        "simulated": f"{three_digits(row['samples_per_s'])} samples/s",
        "90 % interval": f"{low} to {high} samples/s",
        "too close to call with": row["too_close"],
        "predicted": predicted and f"{three_digits(predicted)} samples/s by its own cost model",
        "limited by": f"{row['limited_by']}, busy for {percent(row['busy_share'])} of the time",
        "computing": f"{percent(1 - row['waiting_share'])} of the time",
        "sends": f"{bytes_as_text(row['bytes_per_sample'])} a sample"
        + (f", most from {row['busiest_link']}" if row["busiest_link"] else ""),
        "memory": memory and f"{bytes_as_text(memory)} on {row['memory_node']}{lacks}",
        "learns from": f"{percent(row['samples_share'])} of the samples",
        "updates": row["samples_per_step"]
        and f"an update every {row['samples_per_step']:,.0f} samples",
        "if a node dies": "the others go on" if row["survives_a_node"] else "it stops",
    }
    lines = [f"  {name}: {fact}" for name, fact in facts.items() if fact]
    lines += [f"  assumes: {phrase}" for phrase in row["assumes"].split("; ") if phrase]
    return "\n".join([f"{method}, of {row['system']}:", *lines])
