"""Fits what the paper leaves open and writes ``data/calibration/dlion.toml``.

Only what the paper says of Homo A is used: by how much DLion is more accurate there than each of
the four systems (Fig. 11; a third of each mean in Fig. 13 is the same trainings, so that these are
not predicted either). Trainings of hours decide it, so candidates are few and recorded:
``workbench record dlion candidates`` trains the systems with each,
``python -m workbench.dlion.paper.calibration`` then picks the one with the least squared difference
for each explanation of whose first weights the workers begin with.

Of each reading of Table 3's links, candidates differ in the learning rate alone. `host_ms` is
fitted, too, but by hand: one value, chosen by what Baseline reaches in Homo A, before candidates
were recorded; so is `growth_epochs`, by the steps of Fig. 6. `sample_ms`, `parallel_share` and
`link_share` are assumed; accuracy in Homo A says nothing of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from statistics import fmean

import polars as pl

from workbench.clusters.testbeds import calibration_toml, write_calibration
from workbench.dlion.paper.accuracy import gains
from workbench.dlion.paper.beyond import labelled
from workbench.dlion.paper.compared import OTHERS
from workbench.dlion.paper.testbed import CANDIDATES, EXPLANATION, FIRST_WEIGHTS
from workbench.reproduction import recordings
from workbench.reproduction.claims import paper_value

FITTED_ON = tuple(
    f"dlion.{setting}.{system}"
    for setting in ("fig11.homo_a", "fig13.mean_of_homo_a_hetero_cpu_a_b")
    for system in OTHERS
) + tuple(f"dlion.fig6.step.{place}" for place in ("first", "second", "third"))
BY_HAND = ("host_ms", "growth_epochs")
"""Constants that were fitted without candidates."""


def differences(candidates: pl.DataFrame, name: str, first_weights: str) -> dict[str, float]:
    """Ours less the paper's gain of DLion, by system, with a candidate's constants."""
    frame = labelled(candidates).filter(candidate=name, first_weights=first_weights)
    return {
        system: fmean(by_seed) - paper_value(f"dlion.fig11.homo_a.{system}")
        for system in OTHERS
        if (by_seed := gains(frame, ("homo_a",), system))
    }


def recorded(candidates: pl.DataFrame, first_weights: str) -> dict[str, dict[str, float]]:
    """The differences of each candidate that was trained with as many systems as any."""
    each_off = {name: differences(candidates, name, first_weights) for name in CANDIDATES}
    most = max(map(len, each_off.values()))
    return {name: off for name, off in each_off.items() if off and len(off) == most}


def pick(candidates: pl.DataFrame, first_weights: str) -> str:
    """The recorded candidate with the least sum of squared differences."""
    trained = recorded(candidates, first_weights)
    return min(trained, key=lambda name: sum(percent**2 for percent in trained[name].values()))


def to_toml(candidates: pl.DataFrame) -> str:
    """Constants by explanation, and what every candidate leaves of the claims."""
    tables: dict[str, Mapping[str, object]] = {}
    residuals: dict[str, Mapping[str, object]] = {}
    picked: set[str] = set()
    for first in FIRST_WEIGHTS:
        trained = recorded(candidates, first)
        chosen = asdict(CANDIDATES[pick(candidates, first)])
        tried = [asdict(CANDIDATES[name]) for name in trained]
        differing = {name for name in chosen if len({values[name] for values in tried}) > 1}
        how = dict.fromkeys(BY_HAND, "fitted by hand") | dict.fromkeys(differing, "fitted: picked")
        tables[f"constants.{first}"] = _commented(chosen, how)
        picked |= differing
        for name, off in trained.items():
            heading = f'residuals.{first}."{name}"'
            residuals[f"{heading}  # percent, ours minus the paper's; fitted"] = {
                f"dlion.fig11.homo_a.{system}": f"{percent:.1f}" for system, percent in off.items()
            }
    pair = next(reading for reading in CANDIDATES.values() if reading.links == "pair")
    by_hand = dict.fromkeys(BY_HAND, "by hand") | {"links": "the other reading of Table 3"}
    tables["constants.pair"] = _commented(asdict(pair), by_hand)
    return calibration_toml(
        "dlion",
        _ABOUT,
        explanation=EXPLANATION,
        method="least squared difference of the gains in Homo A, among recorded candidates, "
        f"which differ in {' and '.join(sorted(picked))}",
        fitted_on=FITTED_ON,
        tables={**tables, **residuals},
    )


def _commented(constants: Mapping[str, object], how: Mapping[str, str]) -> dict[str, object]:
    """Constants as TOML, each with how it was found."""
    return {
        f"{name}  # {how.get(name, 'assumed')}": f'"{value}"' if isinstance(value, str) else value
        for name, value in constants.items()
    }


_ABOUT = """\
The constants of DLion's testbed that are not known, the same for every system and
environment: each is picked among recorded candidates that differ in it, or was fitted
by hand with the same claims in view, or is assumed. Their meaning: `Constants` in the
code; the candidates: `CANDIDATES`. Explanations: each worker's own first weights, or
shared ones; and, with own ones, links that each have Table 3's Mbit/s to themselves."""


def main() -> None:
    """Pick, write the file and print it."""
    recording = recordings.load("dlion", "candidates")
    if recording is None:
        raise SystemExit("no candidates are recorded; `workbench record dlion candidates` does so")
    text = to_toml(recording.frame)
    write_calibration("dlion", text)
    print(text)


if __name__ == "__main__":
    main()
