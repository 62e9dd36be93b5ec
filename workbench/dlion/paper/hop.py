"""Why the gains over Baseline and over Hop contradict each other where links are slow."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from workbench.dlion.paper.accuracy import slashed
from workbench.dlion.paper.testbed import SECONDS, STATED
from workbench.reproduction.claims import Cause, paper_value, tolerance
from workbench.reproduction.figure import Figure


class Pace(NamedTuple):
    """How many iterations Table 3 leaves to whoever sends whole gradients, and what Fig. 11 needs.

    A worker sends its gradient to all peers through one interface. Hop is at most its staleness
    bound ahead of what arrived of any worker, so no faster than the slowest interface and that. In
    an iteration of Baseline computation comes on top, which takes no longer than communication does
    on the LAN: there the paper finds accuracy "bounded more by network capacity than compute
    capacity" (Sec. 5.2.3).

    How many times as accurate Hop is (`stated`) follows from the gains over both; at least
    `stated_near`, with both as far off as the scorecard's *near* allows.
    """

    exchange_s: tuple[float, ...]  # of whole gradients through the slowest interface, by phase
    hop_most: float  # iterations in the paper's seconds
    baseline_least: float
    allowed: float  # how many times as many Hop's can be
    stated: float
    stated_near: float

    @property
    def contradicts(self) -> bool:
        """Whether hardly more iterations would have to be far more accurate."""
        return self.stated_near > self.allowed


def pace(figure: str, environment: str) -> Pace:
    """The pace in an environment of the CPU cluster, and the gains that a figure states there."""
    phases = STATED["dynamic"]["environments"].get(environment, {"phases": [environment]})["phases"]
    machines, environments = STATED["machines"], STATED["environments"]
    bits = 8 * STATED["models"]["cipher_bytes"] * (machines["count"] - 1)
    slowest = [min(environments[one].get("mbps", [machines["lan_mbps"]])) for one in phases]
    exchange_s = tuple(bits / (1e6 * mbps) for mbps in slowest)
    lan_s, phase_s = bits / (1e6 * machines["lan_mbps"]), SECONDS / len(phases)
    hop_most = sum(phase_s / one for one in exchange_s) + STATED["compared"]["hop_staleness"]
    baseline_least = sum(phase_s / (one + lan_s) for one in exchange_s)
    baseline, hop = (
        paper_value(f"dlion.{figure}.{environment}.{of}") for of in ("baseline", "hop")
    )
    least, most = baseline - tolerance("percent", baseline), hop + tolerance("percent", hop)
    return Pace(
        exchange_s,
        hop_most,
        baseline_least,
        hop_most / baseline_least,
        (100 + baseline) / (100 + hop),
        (100 + least) / (100 + most),
    )


COMPARED_IN = {
    "fig11": ("homo_a", "hetero_sys_a", "hetero_sys_b"),
    "fig15": ("homo_b", "hetero_net_a"),
    "fig18": ("dynamic_sys_a", "dynamic_sys_b"),
}
"""Environments in which each figure compares all systems' gains."""


def hop() -> pl.DataFrame:
    """Why the gains over Baseline and Hop contradict each other: a `Pace`, by environment.

    ``exchange_s`` is that of its slowest phase.
    """
    rows = []
    for figure, environments in COMPARED_IN.items():
        for environment in environments:
            own = pace(figure, environment)
            more = {"exchange_s": max(own.exchange_s), "contradicts": own.contradicts}
            rows.append({"figure": figure, "environment": environment, **own._asdict(), **more})
    return pl.DataFrame(rows)


_PEERS = STATED["machines"]["count"] - 1
_GRADIENT_MB = STATED["models"]["cipher_bytes"] / 1e6


def causes(figure: str) -> dict[str, Cause]:
    """Why a figure's claims on Hop are missed where they contradict those on Baseline."""
    return {
        f"dlion.{figure}.{environment}.hop": _contradiction(figure, own)
        for environment in COMPARED_IN[figure]
        if (own := pace(figure, environment)).contradicts
    }


def _contradiction(figure: str, own: Pace) -> Cause:
    mbps = slashed(f"{8 * _PEERS * _GRADIENT_MB / one:g}" for one in own.exchange_s)
    seconds = slashed(f"{one:g}" for one in own.exchange_s)
    return Cause(
        "paper",
        f"{_PEERS} gradients of {_GRADIENT_MB:g} MB through {mbps} Mbit/s take {seconds} s "
        f"(Table 3), so in {SECONDS:,.0f} s Hop makes at most {own.hop_most:.0f} iterations, "
        f"with its bound of {STATED['compared']['hop_staleness']}, and Baseline at least "
        f"{own.baseline_least:.0f}, which computes no longer than it communicates on the LAN "
        f"(Sec. 5.2.3): at most {own.allowed:.2f} times as many, and by the gains in {figure} "
        f"{own.stated:.2f} times as accurate",
    )


HOP = Figure(id="hop", compute=hop)
