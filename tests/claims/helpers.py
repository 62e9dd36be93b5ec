"""What the tests of claims share: the real table, claims by hand, a system that is none."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from workbench.claims import Claim, Scorecard, load_claims, scorecard
from workbench.experiments import recorded
from workbench.experiments.recorded import Recorded
from workbench.parameters import Value
from workbench.results import MANIFEST, Manifest, Results, file_digest

TABLE = load_claims()
CLAIMS = [Claim(**record) for record in TABLE.iter_rows(named=True)]


def claim(value: str, unit: str = "percent", check: str = "near", id: str = "toy.a.one") -> Claim:
    return Claim(id, "toy", "Fig. 1", "", "a metric", unit, value, check)


TOY_CLAIMS = """\
id,system,source,setting,metric,unit,value,check,note
toy.fig1.best,toy,Fig. 1,,reduction of best,percent,40,near,
toy.fig1.second,toy,Fig. 1,,reduction of second,percent,20,near,
toy.fig2.speedup,toy,Fig. 2,,speed-up,x,2,near,
toy.fig2.order,toy,Fig. 2,,best is faster than second,order,best<second,order,
toy.fig3.accuracy,toy,Fig. 3,,accuracy lost,percentage points,0.5,at_most,
toy.table1.speed,toy,Table I,,training speed,samples/s,4.5,input,as measured
unbuilt.fig1,unbuilt,Fig. 1,,reduction,percent,1,near,
"""
TOY_ANSWERS = """\
from workbench.claims import Answer

def at_paper_setting(name, frame):
    return frame

def _reduction(planner, frame):
    return Answer(frame.filter(planner=planner)["reduction"].item())

def _order(frame):
    best, second = frame["reduction"]
    return Answer(best > second, "from fig1")

ANSWERS = {
    "toy.fig1": ("fig1", _reduction),
    "toy.fig2.order": ("fig1", _order),
    "toy.fig2.speedup": ("fig2", lambda _: Answer(detail="the search for a plan found none")),
    "toy.fig3.accuracy": ((), lambda: Answer(not_run="needs the training runtime")),
}
"""
TOY_MODULES = ("workbench.toy.paper.answers", "workbench.toy.paper", "workbench.toy")
FIG1 = pl.DataFrame({"planner": ["best", "second"], "reduction": [30.0, 21.0]})


class Toy:
    """A system that exists in a test only: its claims, its answers, what is stored of it."""

    def __init__(self, folder: Path) -> None:
        self.results = folder / "results"
        self.package = folder / "package" / "toy" / "paper"
        self.package.mkdir(parents=True)
        for package in (self.package, self.package.parent):
            (package / "__init__.py").touch()
        self.answer_by(TOY_ANSWERS)
        (folder / "claims.csv").write_text(TOY_CLAIMS)
        self.claims = load_claims(folder / "claims.csv")

    def answer_by(self, source: str) -> None:
        (self.package / "answers.py").write_text(source)
        for name in TOY_MODULES:
            sys.modules.pop(name, None)
        importlib.invalidate_caches()

    def store(
        self, parameters: Mapping[str, Value] = {"scale": "smoke"}, /, **frames: pl.DataFrame
    ) -> None:
        folder = self.results / "09_toy"
        kept = Results("toy", folder)
        for name, frame in frames.items():
            kept.keep(name, frame)
        manifest = Manifest(
            notebook="09_toy",
            system="toy",
            parameters=parameters,
            inputs={},
            made_at="2026-01-01T00:00:00Z",
            wall_s=1.0,
            revision=None,
            dirty=None,
            platform="",
            versions={},
            instruction_set={},
            outputs={
                path.name: file_digest(path) or "" for path in sorted(folder.glob("*.parquet"))
            },
        )
        (folder / MANIFEST).write_text(manifest.to_json())

    def card(self, system: str | None = None) -> Scorecard:
        return scorecard(self.results, system, self.claims)


def recording(
    name: str,
    frame: pl.DataFrame = FIG1,
    *,
    scale: str = "paper",
    data: str = "mnist",
    seeds: Sequence[int] = (1, 2, 3),
) -> dict[str, Recorded]:
    manifest = recorded.Manifest(
        system="toy",
        experiment=name,
        module="workbench.toy",
        arguments={"scale": scale},
        seeds=seeds,
        data={data: ""},
        inputs={},
        made_at="2026-01-01T00:00:00Z",
        points_s=60.0,
        machine={"processor": "one"},
        versions={},
        instruction_set={},
        revision=None,
        dirty=None,
        processes=1,
        frames={name: ""},
    )
    return {name: Recorded({name: frame}, manifest)}


def verdicts(card: Scorecard) -> dict[str, str]:
    return {row.id: row.verdict for row in card.rows}
