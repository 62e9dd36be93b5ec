"""Fits constants of corpora again, and writes ``data/calibration/validation.toml``.

    python -m workbench.comparison.validation.calibration [CORPUS ...]

Without names it fits all corpora, whose tables have to be there, and computes the intervals of
rates from their errors (`workbench.comparison.intervals`). With names it fits these alone, and the
rest of the file stays.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

import polars as pl

from workbench.clusters.testbeds import write_calibration
from workbench.comparison.validation import coverage
from workbench.comparison.validation.against import fitted, found, judged, mean_percent
from workbench.comparison.validation.corpus import Constants, Corpus
from workbench.utils.files import DATA, read_text

HEAD = """\
# Constants by which times that others measured are predicted: fitted on a tenth of the
# rows, by the hash of their keys (of Hivemind, on the runs in one zone), then frozen.
# `python -m workbench.comparison.validation.calibration` fits them again.

method = "least squares of log(predicted / measured), soft above 0.1; Hivemind: linear"
"""

INTERVALS = """\
# Of measured over predicted seconds, 90 % are from low to high; nine in ten ratios of
# two predictions of a model are less than margin times too large. They are from all
# rows that no constant was fitted on, corpora alike. Where each half of the rows is
# judged by the interval of the other half, held_out percent are within.
"""


def to_toml(corpora: Mapping[str, tuple[Corpus, pl.DataFrame]]) -> str:
    """Text of the calibration file, with constants and intervals of these corpora."""
    constants = {name: fitted(corpus, rows) for name, (corpus, rows) in corpora.items()}
    tables = [_constants(name, *corpora[name], own) for name, own in constants.items()]
    ratios = coverage.ratios(corpora, constants)
    return "\n".join([HEAD, *tables, INTERVALS, *_intervals(ratios)])


def with_constants(text: str, name: str, corpus: Corpus, rows: pl.DataFrame) -> str:
    """Text of the calibration file with the constants of one corpus fitted again, or added."""
    table = _constants(name, corpus, rows, fitted(corpus, rows))
    heading = table.partition("]")[0]
    parts = text.split("\n\n")
    if not any(part.startswith(heading + "]") for part in parts):
        return text.replace(INTERVALS, f"{table}\n{INTERVALS}")
    return "\n\n".join(
        table.rstrip("\n") if part.startswith(heading + "]") else part for part in parts
    )


def _constants(name: str, corpus: Corpus, rows: pl.DataFrame, constants: Constants) -> str:
    if not corpus.constants:
        return f"[constants.{name}]  # no row: layers and links were measured apart\n"
    of_fit = judged(corpus, rows, constants).filter(role="fit")
    error = mean_percent(of_fit["predicted_error"])
    lines = [f"[constants.{name}]  # {len(of_fit)} rows, {error:.1f} % off on average"]
    return "\n".join([*lines, *(f'"{key}" = {value}' for key, value in constants.items()), ""])


def _intervals(ratios: pl.DataFrame) -> list[str]:
    """Tables of the errors of each kind of prediction."""
    tables = []
    covered = coverage.held_out(ratios).filter(corpus="all")
    for kind, rows, within in covered.select("kind", "rows", "within").iter_rows():
        own = ratios.filter(kind=kind)
        names = ", ".join(own["corpus"].unique(maintain_order=True))
        values = coverage.errors(own)._asdict() | {"held_out": within}
        lines = [f"[intervals.{kind}]  # {rows:,} rows: {names}"]
        lines += [f"{key} = {value:.4g}" for key, value in values.items()]
        tables.append("\n".join([*lines, ""]))
    return tables


def main(names: list[str]) -> None:
    """Fit, write the file and print it."""
    if names:
        text = read_text(DATA / "calibration" / "validation.toml")
        for name, (corpus, rows) in found(names).items():
            text = with_constants(text, name, corpus, rows)
    else:
        text = to_toml(found())
    write_calibration("validation", text)
    print(text)


if __name__ == "__main__":
    main(sys.argv[1:])
