"""A system that exists in tests of the scorecard alone, its stored results and recordings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from tests.reproduction.manifests import MADE
from workbench.reproduction import provenance
from workbench.reproduction.claims import Answer
from workbench.reproduction.figure import Figure, JointClaims
from workbench.reproduction.manifest import NAME, file_digest
from workbench.reproduction.notebook import Results
from workbench.reproduction.recordings import Recording
from workbench.reproduction.scorecard import Row, Scorecard, of_frames, of_results
from workbench.utils.files import ROOT

TOY_CLAIMS = """\
id,system,source,setting,metric,unit,value,check,note
toy.fig1.best,toy,Fig. 1,,reduction of best,percent,40,near,
toy.fig1.second,toy,Fig. 1,,reduction of second,percent,20,near,
toy.fig2.speedup,toy,Fig. 2,,speed-up,x,2,near,
toy.fig2.order,toy,Fig. 2,,best is faster than second,order,best<second,order,
toy.fig3.accuracy,toy,Fig. 3,,accuracy lost,percentage points,0.5,at_most,
toy.table1.speed,toy,Table I,,training speed,samples/s,4.5,input,as measured
"""
FIG1 = pl.DataFrame({"planner": ["best", "second"], "reduction": [30.0, 21.0]})


def _reduction(planner: str, frame: pl.DataFrame) -> Answer:
    return Answer(frame.filter(planner=planner)["reduction"].item())


def order(frame: pl.DataFrame, **more: Any) -> Answer:
    best, second = frame["reduction"]
    return Answer(best > second, "from fig1", **more)


class Toy:
    """A system that exists in a test only: its claims, its figures, its stored results."""

    def __init__(self, folder: Path) -> None:
        self.results = folder / "results"
        (folder / "claims.csv").write_text(TOY_CLAIMS)
        self.figures: dict[str, Figure] = {
            "fig1": Figure(
                id="fig1",
                compute=FIG1.clone,
                answers={
                    "toy.fig1.best": partial(_reduction, "best"),
                    "toy.fig1.second": partial(_reduction, "second"),
                    "toy.fig2.order": order,
                },
            ),
            "fig2": Figure(
                id="fig2",
                compute=FIG1.clone,
                answers={
                    "toy.fig2.speedup": lambda _: Answer(detail="the search for a plan found none")
                },
            ),
        }
        self.together = JointClaims(
            (), {"toy.fig3.accuracy": lambda: Answer(not_run="needs the training runtime")}
        )

    def all_figures(self) -> tuple[Figure | JointClaims, ...]:
        return (*self.figures.values(), self.together)

    def change(self, figure: str, **fields: Any) -> None:
        """Replace fields of a figure; its answers and causes are added to."""
        own = self.figures[figure]
        for name in {"answers", "causes"} & set(fields):
            fields[name] = {**getattr(own, name), **fields[name]}
        self.figures[figure] = replace(own, **fields)

    def store(self, revision: str = "", /, **frames: pl.DataFrame) -> None:
        """Store frames as a run of the toy's notebook at scale smoke does."""
        folder = self.results / "09_toy"
        kept = Results("toy", folder)
        for name, frame in frames.items():
            kept.keep(name, frame)
        manifest = replace(
            MADE,
            of="09_toy",
            system="toy",
            arguments={"scale": "smoke"},
            revision=revision or provenance.revision(ROOT)[0],
            outputs={path.name: file_digest(path) or "" for path in folder.glob("*.parquet")},
        )
        (folder / NAME).write_text(manifest.to_json())

    def card(self) -> Scorecard:
        """Judge what is stored."""
        return of_results(self.results, "toy")

    def judge(self, frames: Mapping[str, pl.DataFrame], **more: Any) -> Scorecard:
        """Judge frames at hand."""
        return of_frames("toy", frames, **more)


def recording(
    name: str,
    frame: pl.DataFrame = FIG1,
    *,
    scale: str = "paper",
    data: str = "mnist",
    seeds: Sequence[int] = (1, 2, 3),
    dirty: bool = False,
) -> dict[str, Recording]:
    """A recording of a figure of the toy."""
    made = replace(
        MADE,
        of=name,
        arguments={"scale": scale},
        data={data: ""},
        seeds=seeds,
        revision="a" * 40,
        dirty=dirty,
    )
    return {name: Recording(frame, made)}


def by_name(card: Scorecard) -> dict[str, Row]:
    return {row.name: row for row in card.rows}
