"""Fits the constants that the paper leaves open and writes ``data/calibration/olpb.toml``.

They are fitted on the three claims of Fig. 9 alone: as many as possible are met, within each order
as many of its inequalities, and then the largest reduction is nearest. Each constant is then moved
to the middle of the interval in which as much is met. Fig. 9 tells them in units of the delay,
which is assumed (``data/testbeds/olpb.toml``). Figs. 10 to 12 are predicted. Explanations that
were weighed are kept beside the one in use. ``python -m workbench.olpb.paper.calibration`` repeats
it all, in some minutes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from workbench.clusters.testbeds import calibration_toml, write_calibration
from workbench.olpb.paper.scan_times import FIG9, FIG10, FIG11, FIG12, OLPB
from workbench.olpb.paper.testbed import (
    DELAY_FACTORS,
    EXPLANATION,
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
from workbench.utils.checks import choose

REDUCTION = "olpb.fig9.max_reduction"
FITTED = (REDUCTION, "olpb.fig9.order", "olpb.fig9.level")
PREDICTED = (
    "olpb.fig10.reduction",
    "olpb.fig10.dpb",
    "olpb.fig11.olpb",
    "olpb.fig11.bppsa",
    "olpb.fig12.batch",
    "olpb.fig12.scan",
)


@dataclass(frozen=True)
class Explanation:
    """What may explain the paper's times."""

    ranges: Mapping[str, tuple[float, float]]  # constants to fit, and where to search
    fixed: Mapping[str, float]  # the other constants
    options: Mapping[str, Any] = field(default_factory=dict)  # of `Testbed`

    def testbed(self, constants: Constants, **options: Any) -> Testbed:
        """Return the paper's testbed under this explanation."""
        return Testbed(constants, **{**self.options, **options})

    def missed(self, values: Values) -> float:
        """Claims of Fig. 9 that are missed with these constants, in sixteenths."""
        return misfit(self, Constants(**self.fixed, **values))[0]

    @property
    def search(self) -> Search:
        """How its constants are sought: to a factor of 2.4 about the middle."""
        return Search(self.ranges, population=16, step=1.25 ** (1 / 6), steps=24)


# No node computes faster than today's processors, and no dispatch is slower than a second.
_SPEED = {"node_gflops": (0.01, 1000.0)}
_DISPATCH = {"dispatch_ms": (0.1, 1000.0)}
_OPERATOR = {"operator_ms": (0.1, 1000.0)}
_NUMBER = {"number_ns": (0.1, 1000.0)}
_ALL = _SPEED | _OPERATOR | _DISPATCH
_NO_NUMBER = {"number_ns": 0.0}
EXPLANATIONS: dict[str, Explanation] = {
    # A group's gradients cost once; a move is a dispatch. BPPSA's layers begin with a matrix.
    "once": Explanation(_ALL, _NO_NUMBER),
    # Numbers that operators make take time as well.
    "numbers": Explanation(_ALL | _NUMBER, {}),
    # Every move costs the gradients of the right-hand element's own group.
    "each": Explanation(_ALL, _NO_NUMBER, {"moves": "each"}),
    # So, but gradients of parameters cost once.
    "inputs": Explanation(_ALL, _NO_NUMBER, {"moves": "inputs"}),
    # A move costs the gradients of all groups of the right-hand element.
    "all": Explanation(_ALL, _NO_NUMBER, {"moves": "all"}),
    # Layers of BPPSA are those that Table I counts.
    "table_layers": Explanation(_ALL, _NO_NUMBER, {"layers": "layer"}),
    # Nodes wait for each other after every step.
    "in_step": Explanation(_ALL, _NO_NUMBER, {"in_step": True}),
    # Operators take their arithmetic alone.
    "flops_only": Explanation(_SPEED | _DISPATCH, _NO_NUMBER | {"operator_ms": 0.0}),
}
"""What may explain the times that the paper shows."""


def answers_by(explanation: Explanation, constants: Constants) -> dict[str, Answer]:
    """What an explanation answers to Figs. 9 to 12."""
    squeezenet, inception, fig12 = MODELS["SqueezeNet"], MODELS["InceptionV3"], STATED["fig12"]
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
        return times(explanation.testbed(constants, **options), model)

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


def misfit(explanation: Explanation, constants: Constants) -> tuple[float, float]:
    """What `fit` makes least: claims of Fig. 9 missed, in sixteenths; the reduction's error."""
    testbed = explanation.testbed(constants)
    frame = pl.DataFrame([row for model in MODELS.values() for row in times(testbed, model)], TIMES)
    answers = answers_of([FIG9], {"fig9": frame}).by_claim
    judged = verdicts("olpb", answers)
    wrong = sum(judged[claim] not in MET for claim in FITTED)
    ours, paper = float(answers[REDUCTION].ours or 0), float(claims_of("olpb")[REDUCTION].value)
    return wrong + violated(frame) / 16, math.log(max(ours, 1.0) / paper) ** 2


def fit(name: str = EXPLANATION) -> Constants:
    """Constants with the least `misfit`, each in the middle of its interval; half a minute."""
    explanation = choose("explanation", name, EXPLANATIONS)

    def of(values: Values) -> float:
        missed, error = misfit(explanation, Constants(**explanation.fixed, **values))
        return 100 * missed + error

    search = explanation.search
    centre = search.centred(search.least(of), explanation.missed)
    return Constants(**explanation.fixed, **centre)


def intervals(explanation: Explanation, constants: Constants) -> dict[str, tuple[float, float]]:
    """Between which values of each fitted constant no more of Fig. 9 is missed."""
    values = {name: float(getattr(constants, name)) for name in explanation.ranges}
    search = explanation.search
    return {name: search.plateau(values, name, explanation.missed) for name in values}


def to_toml(fitted: Mapping[str, Constants]) -> str:
    """Constants by explanation, between what they may lie, and how each claim fares."""
    tables, stated = dict[str, dict[str, object]](), claims_of("olpb")
    for name, constants in fitted.items():
        explanation = EXPLANATIONS[name]
        answers = answers_by(explanation, constants)
        judged = verdicts("olpb", answers)
        tables[f"constants.{name}"] = dict(vars(constants))
        tables[f"intervals.{name}  # in which no more of Fig. 9 is missed"] = {
            constant: "[{:.3g}, {:.3g}]".format(*ends)
            for constant, ends in intervals(explanation, constants).items()
        }
        tables[f"claims_met.{name}"] = {
            f"{role}  # of {len(claims)}": sum(judged[claim] in MET for claim in claims)
            for role, claims in (("fitted", FITTED), ("predicted", PREDICTED))
        }
        tables[f"residuals.{name}  # ours minus the paper's, percent or x"] = {
            claim: f"{float(answers[claim].ours or 0) - float(stated[claim].value):.3g}"
            for claim in (*FITTED, *PREDICTED)
            if stated[claim].check == "near"
        }
    return calibration_toml(
        "olpb",
        "Constants of OLPB's testbed that the paper leaves open, the same for every network,\n"
        "method, batch size and number of nodes. Their meaning: `Constants` in the code. Fig. 9\n"
        "tells them in units of the delay alone, which is assumed.",
        explanation=EXPLANATION,
        method="most of Fig. 9's claims met, then most of its inequalities, then the reduction "
        "nearest, then the middle of where as much is met",
        fitted_on=FITTED,
        tables=tables,
    )


def main() -> None:
    """Fit every explanation; write the file and say how well each does."""
    fitted = {}
    for name, explanation in EXPLANATIONS.items():
        fitted[name] = constants = fit(name)
        answers = answers_by(explanation, constants)
        judged = verdicts("olpb", answers)
        print(f"{name}: {constants}; {misfit(explanation, constants)}; {judged}", flush=True)
    print(f"written: {write_calibration('olpb', to_toml(fitted))}")


if __name__ == "__main__":
    main()
