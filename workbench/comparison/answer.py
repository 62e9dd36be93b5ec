"""The answer in a sentence: the fastest way, what limits it, and where another overtakes it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from workbench.clusters import Cluster
from workbench.comparison.compare import measuring_of, question_of, table
from workbench.comparison.measured import AT_MOST_S
from workbench.comparison.threshold import Threshold, named, threshold
from workbench.comparison.ways import EQUAL, WAYS
from workbench.graphs.inputs import InputShape
from workbench.utils.numbers import three_digits

if TYPE_CHECKING:
    import torch

    from workbench.profiles import LayerTimes, ModelProfile

FASTER = 1.05
"""Ways that are faster by less are not worth a sentence."""

TIE = 1.005
"""Two ways are even where the ratio of their rates is below this."""


@dataclass(frozen=True)
class Answer:
    """Which way is the fastest of those that equal SGD on all samples, and why.

    Attributes
    ----------
    frame
        All ways, as `compare` returns them.
    way, system
        The fastest that fits in memory; None if there is none.
    over_next
        Its samples a second over those of the runner-up, whatever its system.
    threshold
        Where the bandwidth of its busiest link would make another system the fastest.
    """

    frame: pl.DataFrame
    way: str | None
    system: str | None
    over_next: float | None
    threshold: Threshold | None

    def __str__(self) -> str:
        if self.way is None:
            return "No way that equals SGD on all samples can be used here and fits in memory."
        row = self.frame.row(by_predicate=pl.col("way") == self.way, named=True)
        where = f" ({row['where']})" if row["where"] else ""
        parts = [*lead(_usable(self.frame), where)]
        if _usable(self.frame).filter(pl.col("system") != self.system).is_empty():
            unfit = _equal_to_sgd(self.frame).filter(~pl.col("fits"))["way"].n_unique()
            parts.append(
                f"{unfit} other ways that equal SGD do not fit in memory." if unfit else ""
            )
        parts += [str(self.threshold or ""), self._faster(row["samples_per_s"])]
        return " ".join(filter(None, parts))

    def _faster(self, samples_per_s: float) -> str:
        """What would be faster with other updates, or on some of the samples."""
        usable = self.frame.filter(pl.col("reason").is_null() & pl.col("fits").fill_null(True))
        exact = pl.col("update") == EQUAL
        kinds = {
            "If updates may differ": usable.filter(~exact),
            "On some of the samples": usable.filter(exact & (pl.col("samples_share") < 1)),
        }
        said = []
        for what, ways in kinds.items():
            if len(ways):
                best = ways.row(int(ways["samples_per_s"].arg_max() or 0), named=True)
                ratio = best["samples_per_s"] / samples_per_s
                share = f" ({best['samples_share']:.0%})" if best["samples_share"] < 1 else ""
                if ratio > FASTER:
                    said.append(
                        f"{what}, {named(WAYS[best['way']])}{share} is {three_digits(ratio)} x "
                        "as fast."
                    )
        return " ".join(said)


def answer(
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
    say: Callable[[str], object] = lambda line: None,
) -> Answer:
    """Compare all ways; say which is the fastest, why, and up to which bandwidth. See `compare`.

    `say` is given lines on what is being measured, and how long it will take.
    """
    measuring = measuring_of(measure, measure_at_most_s, say)
    inputs = input_shape, input_dtype
    question = question_of(model, cluster, batch_size, inputs, times, epochs=epochs)
    frame = table(question, simulate=simulate, measuring=measuring)
    usable = _usable(frame)
    if usable.is_empty():
        return Answer(frame, None, None, None, None)
    first = usable.row(0, named=True)
    over_next = first["samples_per_s"] / usable["samples_per_s"][1] if len(usable) > 1 else None
    overtaken = None
    if usable["system"].n_unique() > 1:
        overtaken = threshold(question, first["way"], usable["way"])
    return Answer(frame, first["way"], first["system"], over_next, overtaken)


def lead(usable: pl.DataFrame, where: str = "") -> tuple[str, str]:
    """Say which way is the fastest and what limits it, and how far ahead of which others it is.

    `usable` has the ways in order, the fastest first. The others are the runner-up and, where that
    is of the same system, the first way of another one.
    """
    first = usable.row(0, named=True)
    limit, name = first["limited_by"], named(WAYS[first["way"]])
    what = f"the {limit}" if limit.startswith("link ") else limit
    busy = f"{what} is busy for {first['busy_share']:.0%} of an iteration"
    fastest = f"{name[0].upper()}{name[1:]}{where} is the fastest: {busy}."
    elsewhere = usable.filter(pl.col("system") != first["system"])
    others = pl.concat([usable[1:2], elsewhere[:1]]).unique("way", maintain_order=True)
    ahead = [
        f"{_times(first['samples_per_s'] / rate)}as fast as {'' if at else 'the runner-up, '}"
        f"{named(WAYS[way])}"
        for at, (way, rate) in enumerate(others.select("way", "samples_per_s").iter_rows())
    ]
    return fastest, f"It is {', and '.join(ahead)}." if ahead else ""


def _times(ratio: float) -> str:
    return f"{three_digits(ratio)} x " if ratio >= TIE else ""


def _usable(frame: pl.DataFrame) -> pl.DataFrame:
    """Ways that equal SGD on all samples, can be used and fit, the fastest first."""
    return _equal_to_sgd(frame).filter(pl.col("fits").fill_null(True))


def _equal_to_sgd(frame: pl.DataFrame) -> pl.DataFrame:
    """Ways that equal SGD on all samples and can be used."""
    exact = (pl.col("update") == EQUAL) & (pl.col("samples_share") == 1)
    return frame.filter(pl.col("reason").is_null() & exact)
