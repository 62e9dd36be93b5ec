"""Fits the constants that the paper leaves open and writes ``data/calibration/olpb.toml``.

Under each reading the three constants are fitted on Fig. 9 and on OLPB's milliseconds of Fig. 11,
the only ones in the paper: as many of these claims as possible are met, within each order as many
of its inequalities, and then the milliseconds are nearest. Each constant is then moved to the
middle of the interval in which as much is met. Figs. 10 and 12 and BPPSA's growth in Fig. 11 are
predicted. ``python -m workbench.olpb.paper.calibration`` repeats it all, in some minutes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from workbench.clusters.testbeds import calibration_toml, write_calibration
from workbench.olpb.paper.scan_answers import OLPB
from workbench.olpb.paper.scan_times import FIG9, FIG10, FIG11, FIG12
from workbench.olpb.paper.testbed import (
    DELAY_FACTORS,
    MODELS,
    READING,
    READINGS,
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
"""How constants are sought: then to a factor of 2.4 about the middle."""


def answers_by(reading: str, constants: Constants) -> dict[str, Answer]:
    """What a reading answers to Figs. 9 to 12."""
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
        return times(Testbed(constants, reading=reading, **options), model)

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


def misfit(reading: str, constants: Constants) -> tuple[float, float]:
    """What `fit` makes least: claims missed, in sixteenths; the error of the milliseconds."""
    testbed, stated = Testbed(constants, reading=reading), claims_of("olpb")
    frame = pl.DataFrame([row for model in MODELS.values() for row in times(testbed, model)], TIMES)
    least, most = (
        1e3 * replace(testbed, delay_factor=p).backward_s(MODELS["SqueezeNet"], "olpb_l2")
        for p in (DELAY_FACTORS[0], DELAY_FACTORS[-1])
    )
    answers = answers_of([FIG9], {"fig9": frame}).by_claim | {
        "olpb.fig11.olpb": Answer(most / least),
        "olpb.fig11.least": Answer(least),
        "olpb.fig11.most": Answer(most),
    }
    judged = verdicts("olpb", answers)
    wrong = sum(judged[claim] not in MET for claim in FITTED)
    error = sum(
        math.log(float(answers[claim].ours or 0) / float(stated[claim].value)) ** 2
        for claim in MILLISECONDS
    )
    return wrong + violated(frame) / 16, error


def fit(reading: str = READING) -> Constants:
    """Constants with the least `misfit`, each in the middle of its interval; minutes."""

    def of(values: Values) -> float:
        missed, error = misfit(reading, Constants(**values))
        return 100 * missed + error

    def missed(values: Values) -> float:
        return misfit(reading, Constants(**values))[0]

    return Constants(**SEARCH.centred(SEARCH.least(of), missed))


def intervals(reading: str, constants: Constants) -> dict[str, tuple[float, float]]:
    """Between which values of each constant no more is missed."""
    values = vars(constants)

    def missed(values: Values) -> float:
        return misfit(reading, Constants(**values))[0]

    return {name: SEARCH.plateau(values, name, missed) for name in values}


def to_toml(fitted: Mapping[str, Constants]) -> str:
    """Constants by reading, between what they may lie, and how each claim fares."""
    tables, stated = dict[str, dict[str, object]](), claims_of("olpb")
    for reading, constants in fitted.items():
        answers = answers_by(reading, constants)
        judged = verdicts("olpb", answers)
        tables[f"constants.{reading}"] = dict(vars(constants))
        tables[f"intervals.{reading}  # in which no more of what is fitted is missed"] = {
            constant: "[{:.3g}, {:.3g}]".format(*ends)
            for constant, ends in intervals(reading, constants).items()
        }
        tables[f"claims_met.{reading}"] = {
            f"{role}  # of {len(claims)}": sum(judged[claim] in MET for claim in claims)
            for role, claims in (("fitted", FITTED), ("predicted", PREDICTED))
        }
        tables[f"residuals.{reading}  # ours minus the paper's, percent, x or ms"] = {
            claim: f"{float(answers[claim].ours or 0) - float(stated[claim].value):.3g}"
            for claim in (*FITTED, *PREDICTED)
            if stated[claim].check == "near"
        }
    return calibration_toml(
        "olpb",
        "Constants of OLPB's testbed that the paper leaves open, the same for every network,\n"
        "method, batch size and number of nodes. Their meaning: `Constants` in the code; of the\n"
        "readings, `READINGS`.",
        explanation=READING,
        method="most of the claims met, then most of Fig. 9's inequalities, then Fig. 11's "
        "milliseconds nearest, then the middle of where as much is met",
        fitted_on=FITTED,
        tables=tables,
    )


def main() -> None:
    """Fit every reading; write the file and say how well each does."""
    fitted = {}
    for reading in READINGS:
        fitted[reading] = constants = fit(reading)
        judged = verdicts("olpb", answers_by(reading, constants))
        print(f"{reading}: {constants}; {misfit(reading, constants)}; {judged}", flush=True)
    print(f"written: {write_calibration('olpb', to_toml(fitted))}")


if __name__ == "__main__":
    main()
