"""Fits the constants that the paper leaves open and writes ``data/calibration/hiertrain.toml``.

The paper's statements contradict each other under its cost model (`contradictions`), so
no constants meet them all. Two speeds are fitted on five claims of AlexNet: as many as possible are
met, and of what meets as many, the two speed-ups' squared logarithmic error is least. The least
error lies at an edge, where a claim is all but missed, so each speed is then moved to the middle of
the interval in which as many are met. All that is said of LeNet-5 is predicted, as are Fig. 11's
policy, Fig. 6 and Table II. ``python -m workbench.hiertrain.paper.calibration`` repeats it, in some
minutes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

from workbench.clusters.testbeds import calibration_toml, write_calibration
from workbench.hiertrain.paper import cost_model
from workbench.hiertrain.paper.testbed import (
    EDGE_CLOUD_MBPS,
    ENOUGH_MBPS,
    EXPLANATION,
    FEW_MBPS,
    MODELS,
    ORDER,
    STATED,
    Constants,
    Testbed,
)
from workbench.reproduction.calibrate import Search, Values
from workbench.reproduction.claims import MET, Answer, paper_value, verdicts
from workbench.reproduction.figure import answers_of

SPEEDUPS = ("hiertrain.fig7.alexnet.all_edge", "hiertrain.fig7.alexnet.all_cloud")
FITTED = (
    *SPEEDUPS,
    "hiertrain.fig9.plus_at_low",
    "hiertrain.fig9.jalad_at_low",
    "hiertrain.fig11.cores",
)
PREDICTED = (
    "hiertrain.fig8.lenet5.all_edge",
    "hiertrain.fig8.lenet5.all_cloud",
    "hiertrain.fig10.jalad",
    "hiertrain.fig7.order",
    "hiertrain.fig9.order_jointdnn",
    "hiertrain.fig11.cloud",
)
"""The other claims of Figs. 7 to 11; all but the last need LeNet-5."""

# The peaks are those of the machines, so no fit computes faster than they can.
SEARCH = Search(
    {
        "device_gflops": (0.1, STATED["device"]["peak_gflops"]),
        "edge_core_gflops": (1.0, STATED["edge"]["core_peak_gflops"]),
    },
    population=20,
    step=1.25 ** (1 / 12),
    steps=12,
)

_ABOUT = """\
Constants of HierTrain's testbed that the paper leaves open, the same for every model,
bandwidth, batch size and number of cores. Their meaning: `Constants` in the code."""


def answers(constants: Constants, *, lenet5: bool = True) -> dict[str, Answer]:
    """Answer Figs. 7 to 11 by the cost model; without LeNet-5, only what is said of AlexNet."""
    testbed = Testbed(constants)
    alexnet = cost_model.by_bandwidth(testbed, MODELS["alexnet"])
    asked = [mbps for mbps in EDGE_CLOUD_MBPS if not FEW_MBPS < mbps < ENOUGH_MBPS]
    frames = {
        "fig7": alexnet,
        "fig9": alexnet,
        "fig11": cost_model.by_cores(testbed, MODELS["alexnet"], bandwidths_mbps=asked),
    }
    if lenet5:
        frames["fig8"] = frames["fig10"] = cost_model.by_bandwidth(testbed, MODELS["lenet5"])
    return answers_of(cost_model.FIGURES, frames).by_claim


def missed(constants: Constants, trend: float = 0.5) -> float:
    """Count the claims fitted on that are missed; where the trend is kept, as `trend`."""
    judged = verdicts("hiertrain", answers(constants, lenet5=False))
    costs = {**dict.fromkeys(MET, 0.0), "trend": trend}
    return sum(costs.get(judged[claim], 1.0) for claim in FITTED)


def misfit(constants: Constants) -> float:
    """Return what `fit` makes least: claims that are missed, by tens, and squared logarithms."""
    answered = answers(constants, lenet5=False)
    squared = sum(
        math.log(float(answered[claim].ours or 0) / paper_value(claim)) ** 2 for claim in SPEEDUPS
    )
    return 10.0 * missed(constants) + squared


def fit() -> Constants:
    """Constants with the least `misfit`, in the middle of where no more claims are missed.

    First with trends counting half, as in the search; then by the claims met alone, since a trend
    can hang on two numbers that all but tie, which leaves a narrow interval.
    """
    values: Values = SEARCH.least(_by_values(misfit))
    for trend in (0.5, 1.0):
        values = SEARCH.centred(values, _by_values(partial(missed, trend=trend)))
    return Constants(**values, cloud_over_edge_core=ORDER)


def _by_values(function: Callable[[Constants], float]) -> Callable[[Values], float]:
    return lambda values: function(Constants(**values, cloud_over_edge_core=ORDER))


def to_toml(constants: Constants) -> str:
    """Constants, what they were fitted on, and how the claims fare with them."""
    answered = answers(constants)
    judged = verdicts("hiertrain", answered)
    met = {
        f"{role}  # of {len(claims)}": sum(judged[claim] in MET for claim in claims)
        for role, claims in (("fitted", FITTED), ("predicted", PREDICTED))
    }
    residuals = {
        claim: f"{float(answered[claim].ours or 0) - paper_value(claim):.2f}"
        for claim in (*SPEEDUPS, *PREDICTED[:2])
    }
    tables: Mapping[str, Mapping[str, object]] = {
        f"constants.{EXPLANATION}": vars(constants),
        f"claims_met.{EXPLANATION}  # of Figs. 7 to 11": met,
        f"residuals.{EXPLANATION}  # ours minus the paper's, x": residuals,
    }
    return calibration_toml(
        "hiertrain",
        _ABOUT,
        explanation=EXPLANATION,
        method="most of the claims met, a trend counting half; of these the least squared log "
        "error of the speed-ups, then the middle of where as many are met",
        fitted_on=FITTED,
        tables=tables,
    )


def main() -> None:
    """Fit the constants and write the file."""
    constants = fit()
    print(f"{constants}\nwritten: {write_calibration('hiertrain', to_toml(constants))}")


if __name__ == "__main__":
    main()
