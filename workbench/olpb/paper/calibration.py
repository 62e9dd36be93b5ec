"""Fits the constants that the paper leaves open and writes ``data/calibration/olpb.toml``.

The three constants are fitted on Fig. 9 and on OLPB's milliseconds of Fig. 11, the only ones in the
paper: as many of these claims as possible are met, within each order as many of its inequalities,
and then the milliseconds are nearest. Each constant is then moved to the middle of the interval in
which as much is met. Figs. 10 and 12 and BPPSA's growth in Fig. 11 are predicted. ``python -m
workbench.olpb.paper.calibration`` repeats it all, in some minutes.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import polars as pl

from workbench.clusters.testbeds import calibration_toml, write_calibration
from workbench.olpb.paper.scan_times import FIG9, FIG10, FIG11, FIG12, OLPB
from workbench.olpb.paper.testbed import (
    DELAY_FACTORS,
    MODELS,
    STATED,
    SWEPT_NODES,
    TIMES,
    Constants,
    Testbed,
    times,
)
from workbench.reproduction.calibrate import Search, Values
from workbench.reproduction.claims import MET, Answer, claims_of, verdicts
from workbench.reproduction.figure import answers_of
from workbench.reproduction.sweep import grid

MILLISECONDS = ("olpb.fig11.least", "olpb.fig11.most")
FITTED = (
    *("olpb.fig9.max_reduction", "olpb.fig9.order", "olpb.fig9.level"),
    *("olpb.fig11.olpb", *MILLISECONDS),
)
PREDICTED = (
    *("olpb.fig10.reduction", "olpb.fig10.dpb", "olpb.fig10.faster"),
    "olpb.fig11.bppsa",
    *("olpb.fig12.batch", "olpb.fig12.scan", "olpb.fig12.faster"),
)
# From a phone's core to a laptop's processor; neither an operator nor a move takes half a second.
SEARCH = Search(
    {"node_gflops": (1.0, 100.0), "operator_ms": (1.0, 500.0), "dispatch_ms": (0.1, 500.0)},
    population=16,
    step=1.25 ** (1 / 4),
    steps=16,
)
"""Search for the constants, to a factor of 2.4 about the middle of an interval."""


def answers(constants: Constants) -> dict[str, Answer]:
    """Answers to Figs. 9 to 12 with these constants."""
    fig12 = STATED["fig12"]
    squeezenet, inception = MODELS["SqueezeNet"], MODELS["InceptionV3"]
    points = {
        "fig9": grid(model=MODELS.values()),
        "fig10": grid(model=(squeezenet, inception), nodes=SWEPT_NODES),
        "fig11": grid(model=[squeezenet], delay_factor=DELAY_FACTORS),
        "fig12": grid(
            model=[squeezenet],
            nodes=[fig12["nodes"]],
            delay_factor=[fig12["delay_factor"]],
            scan=("hillis_steele", "blelloch"),
            batch_size=fig12["batch_sizes"],
        ),
    }

    def rows(model: str, **options: Any) -> list[dict[str, Any]]:
        return times(Testbed(constants, **options), model)

    frames = {
        figure: pl.DataFrame([row for point in each for row in rows(**point)], TIMES)
        for figure, each in points.items()
    }
    return answers_of((FIG9, FIG10, FIG11, FIG12), frames).by_claim


def violated(frame: pl.DataFrame) -> int:
    """Inequalities of Fig. 9's two orders that do not hold, of sixteen."""
    seconds = frame.pivot(on="method", index="model", values="backward_s")
    count = 0
    for row in seconds.iter_rows(named=True):
        count += sum(row[method] >= row["bppsa"] for method in OLPB)
        count += row["bppsa"] >= row["dpb"]
        count += (row["olpb_l2"] < row["olpb_l3"]) == (row["model"] == MODELS["InceptionV3"])
    return count


def misfit(constants: Constants) -> tuple[float, float]:
    """Claims missed, in sixteenths, and the error of the milliseconds: what `fit` makes least."""
    testbed, stated = Testbed(constants), claims_of("olpb")
    frame = pl.DataFrame([row for model in MODELS.values() for row in times(testbed, model)], TIMES)
    least, most = (
        1e3 * replace(testbed, delay_factor=p).backward_s(MODELS["SqueezeNet"], "olpb_l2")
        for p in (DELAY_FACTORS[0], DELAY_FACTORS[-1])
    )
    ours = answers_of([FIG9], {"fig9": frame}).by_claim | {
        "olpb.fig11.olpb": Answer(most / least),
        "olpb.fig11.least": Answer(least),
        "olpb.fig11.most": Answer(most),
    }
    judged = verdicts("olpb", ours)
    wrong = sum(judged[claim] not in MET for claim in FITTED)
    error = sum(
        math.log(float(ours[claim].ours or 0) / float(stated[claim].value)) ** 2
        for claim in MILLISECONDS
    )
    return wrong + violated(frame) / 16, error


def _missed(values: Values) -> float:
    return misfit(Constants(**values))[0]


def fit() -> Constants:
    """Constants with the least `misfit`, each in the middle of its interval; minutes."""

    def weighed(values: Values) -> float:
        missed, error = misfit(Constants(**values))
        return 100 * missed + error

    return Constants(**SEARCH.centred(SEARCH.least(weighed), _missed))


def to_toml(constants: Constants) -> str:
    """Text of the file: constants, the intervals that they may lie in, and how claims fare."""
    ours, stated = answers(constants), claims_of("olpb")
    judged = verdicts("olpb", ours)
    intervals = {name: SEARCH.plateau(vars(constants), name, _missed) for name in vars(constants)}
    return calibration_toml(
        "olpb",
        "Constants of OLPB's testbed that the paper leaves open, the same for every network,\n"
        "method, batch size and number of nodes. Their meaning: `Constants` in the code.",
        explanation="batches",
        method="most of the claims met, then most of Fig. 9's inequalities, then Fig. 11's "
        "milliseconds nearest, then the middle of where as much is met",
        fitted_on=FITTED,
        tables={
            "constants.batches": dict(vars(constants)),
            "intervals.batches  # in which no more of what is fitted is missed": {
                name: "[{:.3g}, {:.3g}]".format(*ends) for name, ends in intervals.items()
            },
            "claims_met.batches": {
                f"{role}  # of {len(claims)}": sum(judged[claim] in MET for claim in claims)
                for role, claims in (("fitted", FITTED), ("predicted", PREDICTED))
            },
            "residuals.batches  # ours minus the paper's, percent, x or ms": {
                claim: f"{float(ours[claim].ours or 0) - float(stated[claim].value):.3g}"
                for claim in (*FITTED, *PREDICTED)
                if stated[claim].check == "near"
            },
        },
    )


def main() -> None:
    """Fit the constants; write the file and say how well they do."""
    constants = fit()
    print(f"{constants}; {misfit(constants)}; {verdicts('olpb', answers(constants))}")
    print(f"written: {write_calibration('olpb', to_toml(constants))}")


if __name__ == "__main__":
    main()
