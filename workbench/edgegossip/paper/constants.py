"""What the fitted constant rests on: explanations, and how far the assumptions move it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import fmean
from typing import Any

import altair as alt
import polars as pl

from workbench import figures
from workbench.edgegossip.paper import calibration
from workbench.edgegossip.paper.calibration import speedups
from workbench.edgegossip.paper.testbed import (
    DEPLOYMENTS,
    EPOCHS,
    LOAD_SEED,
    STATED,
    UPLINK_MBPS,
    Constants,
    Testbed,
)
from workbench.figures import parts
from workbench.reproduction.figure import Figure
from workbench.reproduction.sweep import grid, sweep


def explanations() -> pl.DataFrame:
    """What each explanation of the speed-up predicts beside it.

    A row per explanation and claim: ``explanation, claim, role, ours, paper``.
    """
    schema = {
        **dict.fromkeys(("explanation", "claim", "role"), pl.String),
        **dict.fromkeys(("ours", "paper"), pl.Float64),
    }
    return sweep(
        _predicted, grid(explanation=calibration.EXPLANATIONS), schema, title="Explanations"
    )


def _predicted(explanation: str) -> list[dict[str, object]]:
    testbed = calibration.EXPLANATIONS[explanation].testbed(Constants.load(explanation))
    return [
        {
            "claim": claim,
            "role": "fitted" if claim == calibration.FITTED_ON else "predicted",
            "ours": ours,
            "paper": paper,
        }
        for claim, (ours, paper) in calibration.predicted(testbed).items()
    ]


def draw_explanations(frame: pl.DataFrame) -> alt.FacetChart:
    """Each explanation's numbers beside the paper's (the tick)."""
    titles = {
        "edgegossip.speedup": "speed-up (fitted)",
        "edgegossip.fig8.lenet5": "LeNet-5: ranking, %",
        "edgegossip.fig8.alexnet": "AlexNet: ranking, %",
    }
    names = frame["explanation"].unique(maintain_order=True).to_list()
    base = alt.Chart(frame.with_columns(pl.col("claim").replace_strict(titles))).encode(
        y=alt.Y("explanation:N", sort=names, title=None)
    )
    ours = base.mark_bar().encode(x=alt.X("ours:Q", title="ours; the paper's is the mark"))
    paper = base.mark_tick(color=figures.PALETTE[1], thickness=3).encode(x="paper:Q")
    title = ["What may explain the speed-up", "one constant each (cost model)"]
    panel = (ours + paper).properties(height=70)
    return parts.facets(panel, "claim", list(titles.values()), title).resolve_scale(x="independent")


ASSUMED = {
    "points_per_platform": "points on each platform",
    "backward_over_forward": "backward over forward pass",
    "sustained_share": "share of the peak sustained",
    "operations_per_s": "operations/s in aggregating",
    "overhead_ms": "overhead of a transmission, ms",
    "window_s": "window of contention, s",
}
"""Of the testbed's assumptions those that are varied by a factor."""


def _varied(factor: float) -> dict[str, tuple[str, dict[str, Any]]]:
    """Value of each number times a factor, and the arguments of `_speedups` that it changes."""
    assumed = {name: factor * STATED["assumed"][name] for name in ASSUMED}
    assumed["points_per_platform"] = int(assumed["points_per_platform"])
    larger = [round(factor * count) for count in DEPLOYMENTS[1:]]
    epochs, uplink_mbps, fitted = round(factor * EPOCHS), factor * UPLINK_MBPS, Constants.load()
    intensity, host_ms = factor * fitted.intensity, factor * fitted.host_ms
    return {
        what: (f"{assumed[name]:,g}", {"assumed": {name: assumed[name]}})
        for name, what in ASSUMED.items()
    } | {
        "platforms of the larger deployments": (
            ", ".join(map(str, larger)),
            {"deployments": (DEPLOYMENTS[0], *larger)},
        ),
        "uplink, Mbit/s": (f"{uplink_mbps:,g}", {"uplink_mbps": uplink_mbps}),
        "epochs": (str(epochs), {"epochs": epochs}),
        "co-runners' intensity": (
            f"{intensity:g}",
            {"constants": replace(fitted, intensity=intensity)},
        ),
        "host, ms a sample (fitted)": (
            f"{host_ms:g}",
            {"constants": replace(fitted, host_ms=host_ms)},
        ),
    }


DEALT = {"points_per_platform": None}
CHOICES: dict[str, tuple[str, dict[str, Any]]] = {
    "peers of each platform (4)": ("4", {"assumed": {"peers": 4}}),
    "peers of each platform (all)": ("all", {"assumed": {"peers": None}}),
    "data dealt out once": ("50,000 in all", {"assumed": DEALT}),
    "data dealt out once, all peers": ("50,000 in all", {"assumed": {**DEALT, "peers": None}}),
    "co-runners drawn again": (f"seed {LOAD_SEED + 1}", {"seed": LOAD_SEED + 1}),
    "co-runners drawn a third time": (f"seed {LOAD_SEED + 2}", {"seed": LOAD_SEED + 2}),
}
"""Choices made otherwise: value, and the arguments of `_speedups` that it changes."""


def _speedups(
    constants: Constants | None = None, assumed: Mapping[str, Any] | None = None, **options: Any
) -> list[float]:
    """Speed-ups by setting, with other constants or assumptions; `options` as for `speedups`."""
    facts = {**STATED, "assumed": {**STATED["assumed"], **(assumed or {})}}
    return list(speedups(Testbed(constants or Constants.load(), facts), **options).values())


VARIED = {
    "number": pl.String,
    "factor": pl.Float64,
    "value": pl.String,
    **dict.fromkeys(("speedup", "least", "most"), pl.Float64),
}


def sensitivity(processes: int | None = None) -> pl.DataFrame:
    """Mean speed-up at half and at double what is assumed, and with other choices.

    Everything else stays unchanged, also the fitted constant, which is varied, too. Of the
    co-runners only their intensity and their draw are: not their pauses, sizes and weights.

    A row per number and factor, and per choice (whose ``factor`` is null): ``number, factor,
    value`` (as text; of deployments it is several) and ``speedup``, the mean over the settings,
    with the ``least`` and the ``most`` of them.
    """
    numbers = list(_varied(1.0))
    points = [{"factor": 1.0, "number": numbers[0]}, *grid(factor=(0.5, 2.0), number=numbers)]
    points += [{"factor": None, "number": number} for number in CHOICES]
    return sweep(_gains, points, VARIED, title="Sensitivity", processes=processes, then=_beside)


def _gains(number: str, factor: float | None) -> dict[str, object]:
    value, changed = (CHOICES if factor is None else _varied(factor))[number]
    gains = _speedups(**changed)
    return {"value": value, "speedup": fmean(gains), "least": min(gains), "most": max(gains)}


def _beside(frame: pl.DataFrame) -> pl.DataFrame:
    """Beside each number's half and double the unchanged setting, a row for all."""
    stands = {number: value for number, (value, _) in _varied(1.0).items()}
    each = pl.DataFrame({"number": list(stands), "value": list(stands.values())})
    unvaried = frame.filter(factor=1.0).drop("number", "value").join(each, how="cross")
    varied = frame.filter(pl.col("factor").is_null() | (pl.col("factor") != 1))
    whole = pl.concat([varied, unvaried.select(frame.columns)])
    return whole.sort(pl.col("number").cast(pl.Enum([*stands, *CHOICES])), "factor")


EXPLANATIONS = Figure(id="explanations", compute=explanations, chart=draw_explanations)

SENSITIVITY = Figure(id="sensitivity", compute=sensitivity)
