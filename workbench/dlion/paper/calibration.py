"""Fits what the paper leaves open and writes ``data/calibration/dlion.toml``.

Only what the paper says of Homo A is used: by how much DLion is more accurate there than each of
the four systems (Fig. 11; a third of each mean in Fig. 13 is the same trainings, so that these are
not predicted either). Trainings of hours decide it, so candidates are few and recorded:
``workbench record dlion candidates`` trains the systems with each,
``python -m workbench.dlion.paper.calibration`` then picks the one with the least squared difference
for each explanation of whose first weights the workers begin with.

Candidates differ in the learning rate alone. `host_ms` is fitted, too, but by hand: one value,
chosen by what Baseline reaches in Homo A, before candidates were recorded. `sample_ms`,
`parallel_share` and `link_share` are assumed; accuracy in Homo A says nothing of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from statistics import fmean

import polars as pl

from workbench.clusters.testbeds import calibration_toml, write_calibration
from workbench.dlion.paper.compared import OTHERS, gains
from workbench.dlion.paper.testbed import CANDIDATES, EXPLANATION, FIRST_WEIGHTS, Constants
from workbench.reproduction import recordings
from workbench.reproduction.claims import paper_value

FITTED_ON = tuple(
    f"dlion.{setting}.{system}"
    for setting in ("fig11.homo_a", "fig13.mean_of_homo_a_hetero_cpu_a_b")
    for system in OTHERS
)
BY_HAND = ("host_ms",)
"""Constants that were fitted without candidates."""
PICKED = tuple(
    one.name
    for one in fields(Constants)
    if len({getattr(candidate, one.name) for candidate in CANDIDATES.values()}) > 1
)
"""Constants in which candidates differ."""


def differences(candidates: pl.DataFrame, name: str, first_weights: str) -> dict[str, float]:
    """Ours less the paper's gain of DLion, by system, with a candidate's constants."""
    frame = candidates.filter(candidate=name, first_weights=first_weights)
    return {
        system: fmean(by_seed) - paper_value(f"dlion.fig11.homo_a.{system}")
        for system in OTHERS
        if (by_seed := gains(frame, ("homo_a",), system))
    }


def pick(candidates: pl.DataFrame, first_weights: str) -> str:
    """The candidate with the least sum of squared differences, of those with all systems."""

    def squares(name: str) -> float:
        off = differences(candidates, name, first_weights)
        return sum(percent**2 for percent in off.values()) if len(off) == len(OTHERS) else math.inf

    return min(CANDIDATES, key=squares)


def to_toml(candidates: pl.DataFrame) -> str:
    """Constants by explanation, and what every candidate leaves of the claims."""
    tables: dict[str, Mapping[str, object]] = {}
    for first in FIRST_WEIGHTS:
        trained = [len(differences(candidates, name, first)) == len(OTHERS) for name in CANDIDATES]
        picked = PICKED if sum(trained) > 1 else ()
        how = dict.fromkeys(BY_HAND, "fitted by hand") | dict.fromkeys(picked, "fitted: picked")
        tables[f"constants.{first}"] = {
            f"{name}  # {how.get(name, 'assumed')}": value
            for name, value in asdict(CANDIDATES[pick(candidates, first)]).items()
        }
    for first in FIRST_WEIGHTS:
        for name in CANDIDATES:
            if found := differences(candidates, name, first):
                heading = f'residuals.{first}."{name}"'
                tables[f"{heading}  # percent, ours minus the paper's; fitted"] = {
                    f"dlion.fig11.homo_a.{system}": f"{one:.1f}" for system, one in found.items()
                }
    return calibration_toml(
        "dlion",
        _ABOUT,
        explanation=EXPLANATION,
        method="least squared difference of the gains in Homo A, among recorded candidates, "
        f"which differ in {' and '.join(PICKED)}",
        fitted_on=FITTED_ON,
        tables=tables,
    )


_ABOUT = """\
The constants of DLion's testbed that are not known, the same for every system and
environment: each is picked among recorded candidates that differ in it, or was fitted
by hand with the same claims in view, or is assumed. Their meaning: `Constants` in the
code; the candidates: `CANDIDATES`."""


def main() -> None:
    """Pick, write the file and print it."""
    found = recordings.load("dlion", "candidates")
    if found is None:
        raise SystemExit("no candidates are recorded; `workbench record dlion candidates` does so")
    text = to_toml(found.frame)
    write_calibration("dlion", text)
    print(text)


if __name__ == "__main__":
    main()
