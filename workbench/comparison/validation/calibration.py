"""Fits the constants of all corpora again, and writes ``data/calibration/validation.toml``.

With them it writes the intervals of rates, `workbench.comparison.intervals`.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from workbench.clusters.testbeds import write_calibration
from workbench.comparison.validation import coverage
from workbench.comparison.validation.against import fitted, found, judged, mean_percent
from workbench.comparison.validation.corpus import Corpus


def to_toml(corpora: Mapping[str, tuple[Corpus, pl.DataFrame]]) -> str:
    """Text of the calibration file, with constants of these corpora."""
    constants = {name: fitted(corpus, rows) for name, (corpus, rows) in corpora.items()}
    lines = [
        "# Constants by which times that others measured are predicted: fitted on a tenth of the",
        "# rows, by the hash of their keys (of Hivemind, on the runs in one zone), then frozen.",
        "# `python -m workbench.comparison.validation.calibration` fits them again.",
        "",
        'method = "least squares of log(predicted / measured), soft above 0.1; Hivemind: linear"',
    ]
    for name, (corpus, rows) in corpora.items():
        if not corpus.constants:
            lines += ["", f"[constants.{name}]  # no row: layers and links were measured apart"]
            continue
        of_fit = rows.filter(role="fit")
        frame = judged(corpus, rows, constants[name]).filter(role="fit")
        error = mean_percent(frame["predicted_error"])
        lines += ["", f"[constants.{name}]  # {len(of_fit)} rows, {error:.1f} % off on average"]
        lines += [f'"{key}" = {value}' for key, value in constants[name].items()]
    return "\n".join([*lines, *_intervals(coverage.ratios(corpora, constants)), ""])


def _intervals(ratios: pl.DataFrame) -> list[str]:
    """Lines on the errors of each kind of prediction."""
    lines = [
        "",
        "# Of measured over predicted seconds, 90 % are from low to high; nine in ten ratios of",
        "# two predictions of a model are less than margin times too large. They are from all",
        "# rows that no constant was fitted on, corpora alike. Where each half of the rows is",
        "# judged by the interval of the other half, held_out percent are within.",
    ]
    covered = coverage.held_out(ratios).filter(corpus="all")
    for kind, rows, within in covered.select("kind", "rows", "within").iter_rows():
        own = ratios.filter(kind=kind)
        names = ", ".join(own["corpus"].unique(maintain_order=True))
        lines += ["", f"[intervals.{kind}]  # {rows:,} rows: {names}"]
        found = coverage.errors(own)._asdict() | {"held_out": within}
        lines += [f"{key} = {value:.4g}" for key, value in found.items()]
    return lines


def main() -> None:
    """Fit, write the file and print it."""
    text = to_toml(found())
    write_calibration("validation", text)
    print(text)


if __name__ == "__main__":
    main()
