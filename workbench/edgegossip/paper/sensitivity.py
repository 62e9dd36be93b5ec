"""What the mean speed-up rests on beside the fitted constant: each assumed number, varied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import polars as pl

from workbench import parallel
from workbench.edgegossip.paper.calibration import DEPLOYMENTS, EPOCHS, speedups
from workbench.edgegossip.paper.testbed import STATED, UPLINK_MBPS, Constants, Testbed

FACTORS = (0.5, 1.0, 2.0)


@dataclass(frozen=True)
class _Setting:
    """All that the mean speed-up follows from."""

    constants: Constants
    assumed: Mapping[str, Any]
    epochs: int = EPOCHS
    deployments: Sequence[int] = DEPLOYMENTS
    uplink_mbps: float = UPLINK_MBPS

    def speedups(self) -> list[float]:
        testbed = Testbed(self.constants, {**STATED, "assumed": self.assumed})
        found = speedups(
            testbed, self.epochs, deployments=self.deployments, uplink_mbps=self.uplink_mbps
        )
        return list(found.values())


def _varied(factor: float) -> Iterator[tuple[str, str, _Setting]]:
    """Name, value and setting of each number, times a factor, all else as it is."""
    stands = _Setting(Constants.load(), STATED["assumed"])
    constants, assumed = stands.constants, stands.assumed
    yield (
        "uplink, Mbit/s",
        f"{factor * UPLINK_MBPS:g}",
        replace(stands, uplink_mbps=factor * UPLINK_MBPS),
    )
    for name, what in (
        ("sustained_share", "share of the peak sustained"),
        ("operations_per_s", "operations/s in aggregating"),
    ):
        value = factor * assumed[name]
        yield what, f"{value:g}", replace(stands, assumed={**assumed, name: value})
    epochs = round(factor * EPOCHS)
    yield "epochs", str(epochs), replace(stands, epochs=epochs)
    intensity = factor * constants.intensity
    yield (
        "co-runners' intensity",
        f"{intensity:g}",
        replace(stands, constants=replace(constants, intensity=intensity)),
    )
    larger = [round(factor * count) for count in DEPLOYMENTS[1:]]
    yield (
        "platforms of the larger deployments",
        ", ".join(map(str, larger)),
        replace(stands, deployments=(DEPLOYMENTS[0], *larger)),
    )
    host_ms = factor * constants.host_ms
    yield (
        "host, ms a sample (fitted)",
        f"{host_ms:g}",
        replace(stands, constants=replace(constants, host_ms=host_ms)),
    )


def sensitivity(processes: int | None = None) -> pl.DataFrame:
    """Mean speed-up at half and at double each number that is assumed and decides it.

    Everything else stays as it is, the fitted constant, too; that is varied in the last rows.

    Parameters
    ----------
    processes
        To compute in; one for each core by default.

    Returns
    -------
    polars.DataFrame
        A row per number and factor: ``number, factor, value`` (as text; of deployments it is
        several) and ``speedup``, the mean over the settings, with the ``least`` and the ``most``
        of them.
    """
    halves, stands, doubles = (list(_varied(factor)) for factor in FACTORS)
    calls = [(setting,) for _, _, setting in (stands[0], *halves, *doubles)]
    found = dict(parallel.as_finished(_Setting.speedups, calls, processes))
    count = len(stands)
    rows = []
    for at, of_one in enumerate(zip(halves, stands, doubles, strict=True)):
        gains_of = found[1 + at], found[0], found[1 + count + at]
        for factor, gains, (number, value, _) in zip(FACTORS, gains_of, of_one, strict=True):
            rows.append((number, factor, value, fmean(gains), min(gains), max(gains)))
    columns = ["number", "factor", "value", "speedup", "least", "most"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def sensitivity_in_words(frame: pl.DataFrame) -> str:
    """Say where the mean speed-up ends up, the number that moves it most first."""
    stands = frame.filter(factor=1.0)["speedup"][0]
    told = []
    for number in frame["number"].unique(maintain_order=True):
        ends = frame.filter(pl.col("factor") != 1, number=number).sort("factor")["speedup"]
        told.append((max(ends) - min(ends), f"{number} {ends[0]:.2f} and {ends[-1]:.2f}"))
    told.sort(reverse=True)
    return (
        f"The mean speed-up is {stands:.2f}; at half and at double a number, all else as it is: "
        f"{'; '.join(words for _, words in told)}."
    )
