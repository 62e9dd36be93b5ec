"""Policies: which tier trains which layers with how many samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import groupby

import polars as pl

from workbench.hiertrain.costs.problem import TIERS, FloatArray, Problem
from workbench.utils.checks import UserError, check_whole, listed, whole

SCHEMA = {"tier": pl.String, "first_layer": pl.Int64, "last_layer": pl.Int64, "samples": pl.Int64}
Row = tuple[str, int, int | None, int]


class Policy(ABC):
    """Who trains what; frozen. A `Hybrid` or a `Chain`."""

    @property
    @abstractmethod
    def batch_size(self) -> int:
        """Samples per iteration, B."""

    @abstractmethod
    def held(self, tier: str, layers: int) -> list[tuple[int, int]]:
        """Runs of layers that a tier updates, first and last included, of a model of `layers`."""

    @abstractmethod
    def holders(self, layers: int) -> tuple[str, ...]:
        """Tier whose weights of each layer count, layer 1 first."""

    @abstractmethod
    def rows(self, layers: int | None = None) -> list[Row]:
        """Rows of `table`, as tuples."""

    @abstractmethod
    def check(self, problem: Problem) -> None:
        """Refuse a problem of other layers or another batch."""
        if self.batch_size != problem.batch:
            raise UserError(
                f"the policy shares out {self.batch_size} samples, "
                f"but the problem's batch is {problem.batch}"
            )

    def table(self, layers: int | None = None) -> pl.DataFrame:
        """Table of the forward phase; backward is its reverse.

        A row per run of layers: ``tier``, ``first_layer``, ``last_layer`` (both included, from 1),
        ``samples``. Without the model's number of `layers`, N, the last layer of a `Hybrid`'s full
        task is null.
        """
        return pl.DataFrame(self.rows(layers), schema=SCHEMA, orient="row")

    def __str__(self) -> str:
        def span(first: int, last: int | None) -> str:
            many = f"layers {first} to {last or 'the last'}"
            return f"layer {first}" if first == last else many

        return "; ".join(
            f"{tier}: {span(first, last)}, {samples} sample{'' if samples == 1 else 's'}"
            for tier, first, last, samples in self.rows()
        )


@dataclass(frozen=True)
class Hybrid(Policy):
    """Hybrid parallelism: an original, a short and a long task (Liu et al. 2020, IV-A).

    Worker o trains the whole model with b_o samples; worker s layers 1..m_s with b_s samples and
    worker l layers 1..m_l with b_l samples, whose outputs worker o takes further.

    Parameters
    ----------
    order
        The tiers of workers o, s and l.
    m_s, m_l
        Last layer of the short and of the long task, ``0 <= m_s <= m_l``. 0 takes no part.
    b_o, b_s, b_l
        Samples of each worker. A worker that takes no part has none (Eqs. 14-15).
    """

    order: tuple[str, str, str]
    m_s: int
    m_l: int
    b_o: int
    b_s: int
    b_l: int

    def __post_init__(self) -> None:
        order = listed("order", self.order, "give the tiers of workers o, s and l")
        if len(order) != len(TIERS) or any(tier not in order for tier in TIERS):
            raise UserError(
                f"order {order} names the tiers of workers o, s and l: "
                f"each of {', '.join(TIERS)} once"
            )
        object.__setattr__(self, "order", order)
        for name in ("m_s", "m_l", "b_o", "b_s", "b_l"):
            object.__setattr__(self, name, check_whole(name, getattr(self, name), 0))
        if self.m_s > self.m_l:
            raise UserError(
                f"m_s is {self.m_s} and m_l is {self.m_l}; the short task must not be longer "
                "than the long one, so swap workers s and l"
            )
        for last, samples in (("m_s", "b_s"), ("m_l", "b_l")):
            if getattr(self, last) == 0 and getattr(self, samples) > 0:
                raise UserError(
                    f"{last} is 0, so that worker takes no part and {samples} must be 0, "
                    f"not {getattr(self, samples)}"
                )
        if self.batch_size == 0:
            raise UserError("b_o, b_s and b_l are all 0; an iteration has at least one sample")

    @property
    def batch_size(self) -> int:
        """Samples per iteration, B (Eq. 13)."""
        return self.b_o + self.b_s + self.b_l

    def lasts(self, layers: int) -> dict[str, int]:
        """Last layer of each tier's task; 0 takes no part."""
        return dict(zip(self.order, (layers, self.m_s, self.m_l), strict=True))

    def held(self, tier: str, layers: int) -> list[tuple[int, int]]:
        """All layers for worker o, those of their tasks for workers s and l."""
        last = self.lasts(layers)[tier]
        return [(1, last)] if last else []

    def holders(self, layers: int) -> tuple[str, ...]:
        """Worker o's tier, for every layer."""
        return self.order[:1] * layers

    def check(self, problem: Problem) -> None:
        """Refuse a problem of fewer layers or another batch."""
        if self.m_l > problem.layers:
            raise UserError(f"m_l is {self.m_l}, but the model has only {problem.layers} layers")
        super().check(problem)

    def rows(self, layers: int | None = None) -> list[Row]:
        """Rows of `table`: worker o thrice, with the samples that reach it, then s and l."""
        o, s, l = self.order  # noqa: E741
        rows: list[Row] = [
            (o, 1, self.m_s, self.b_o),
            (o, self.m_s + 1, self.m_l, self.b_o + self.b_s),
            (o, self.m_l + 1, layers, self.batch_size),
            (s, 1, self.m_s, self.b_s),
            (l, 1, self.m_l, self.b_l),
        ]
        return [row for row in rows if row[3] and (row[2] is None or row[1] <= row[2])]


@dataclass(frozen=True)
class Chain(Policy):
    """Model parallelism: each layer on one tier, all samples through all of them.

    Parameters
    ----------
    tiers
        The tier of each layer, layer 1 first.
    batch
        Samples per iteration, B.
    bits
        Bits per value of features and gradients that pass between edge and cloud, 1 to 16; 32 or
        None for values as they are.
    """

    tiers: tuple[str, ...]
    batch: int
    bits: int | None = None

    def __post_init__(self) -> None:
        tiers = listed("tiers", self.tiers, "name one tier per layer, at least one layer")
        if not tiers:
            raise UserError("tiers is empty; name one tier per layer, at least one layer")
        object.__setattr__(self, "tiers", tiers)
        for layer, tier in enumerate(self.tiers, start=1):
            if tier not in TIERS:
                raise UserError(f"layer {layer} is on {tier!r}; the tiers are {', '.join(TIERS)}")
        object.__setattr__(self, "batch", check_whole("batch", self.batch, 1))
        if self.bits is not None and whole(self.bits) not in (*range(1, 17), 32):
            raise UserError(f"bits is {self.bits}; values take 1 to 16 bits, or 32 as they are")

    @property
    def batch_size(self) -> int:
        """Samples per iteration, B."""
        return self.batch

    def held(self, tier: str, layers: int) -> list[tuple[int, int]]:
        """Runs of layers on a tier."""
        return [(first, last or layers) for holder, first, last, _ in self.rows() if holder == tier]

    def holders(self, layers: int) -> tuple[str, ...]:
        """Tier of each layer."""
        del layers
        return self.tiers

    def check(self, problem: Problem) -> None:
        """Refuse a problem of other layers or another batch."""
        if len(self.tiers) != problem.layers:
            raise UserError(
                f"the policy places {len(self.tiers)} layers, but the model has {problem.layers}"
            )
        super().check(problem)

    def rows(self, layers: int | None = None) -> list[Row]:
        """Rows of `table`: the runs of layers on one tier, in the order of the layers."""
        del layers
        rows: list[Row] = []
        for tier, run in groupby(self.tiers):
            first = rows[-1][2] + 1 if rows else 1  # type: ignore[operator]
            rows.append((tier, first, first + len(list(run)) - 1, self.batch))
        return rows

    def sum_on(self, tier: str, values: FloatArray) -> float:
        """Sum of the values, one per layer, of the layers that a tier holds."""
        pairs = zip(self.tiers, values, strict=True)
        return sum(float(value) for holder, value in pairs if holder == tier)

    def bits_between(self, a: str, b: str) -> int:
        """Bits per value of features and gradients; 32 for values as they are."""
        return self.bits or 32 if {a, b} == {"edge", "cloud"} else 32

    def crossing_bytes(self, problem: Problem, layer: int, *, back: bool = False) -> float:
        """Bytes of the batch's features that pass from `layer` to the next; 0 within a tier.

        Or, if `back`, of the gradients that come back to it.
        """
        a, b = self.tiers[layer - 1 : layer + 1]
        by_layer = problem.gradient_bytes if back else problem.output_bytes
        share = self.bits_between(a, b) / 32
        return float(self.batch * by_layer[layer - 1] * share) if a != b else 0.0
