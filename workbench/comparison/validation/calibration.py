"""Fits the constants of all corpora again, and writes ``data/calibration/validation.toml``."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from workbench.clusters.testbeds import write_calibration
from workbench.comparison.validation.against import fitted, found, judged, mean_percent
from workbench.comparison.validation.corpus import Corpus


def to_toml(corpora: Mapping[str, tuple[Corpus, pl.DataFrame]]) -> str:
    """Text of the calibration file, with constants of these corpora."""
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
        constants = fitted(corpus, rows)
        frame = judged(corpus, rows, constants).filter(role="fit")
        error = mean_percent(frame["predicted_error"])
        lines += ["", f"[constants.{name}]  # {len(of_fit)} rows, {error:.1f} % off on average"]
        lines += [f'"{key}" = {value}' for key, value in constants.items()]
    return "\n".join([*lines, ""])


def main() -> None:
    """Fit, write the file and print it."""
    text = to_toml(found())
    write_calibration("validation", text)
    print(text)


if __name__ == "__main__":
    main()
