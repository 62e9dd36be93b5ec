"""Exported figures as a LaTeX fragment: each with its caption, its label and the claims it answers.

The caption is the chart's own title and setting. The fragment needs graphicx alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from workbench import figures
from workbench.reproduction import systems
from workbench.reproduction.results import StoredFigure
from workbench.reproduction.scorecard.card import Row
from workbench.reproduction.scorecard.judging import figures_of, of_results
from workbench.utils import files

FORMATS: Final = ("pdf", "png")
"""What `\\includegraphics` takes; SVG needs a converter."""

_MATHS: Final = {
    **{"≤": "le", "≥": "ge", "×": "times", "·": "cdot", "±": "pm", "≈": "approx", "∞": "infty"},
    **{"→": "rightarrow", "µ": "mu", "μ": "mu", "α": "alpha", "λ": "lambda"},
}
_ESCAPES: Final = str.maketrans(
    {
        **{char: f"\\{char}" for char in "%_&#${}"},
        **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
        **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''"},
        **{"°": r"\ensuremath{^\circ}", "²": r"\ensuremath{^2}", "−": r"\ensuremath{-}"},
        **{char: rf"\ensuremath{{\{command}}}" for char, command in _MATHS.items()},
    }
)


def escaped(text: str) -> str:
    """Return text as LaTeX prints it, on one line; letters with accents stay as they are."""
    words = " ".join(text.split()).replace("<=", "≤").replace(">=", "≥")
    return words.translate(_ESCAPES).replace("--", "-{}-{}")


def write(
    exported: Iterable[StoredFigure], output: Path, results: Path, column: str, format: str
) -> Path:
    """Write a fragment with the figures that were exported to the folder `output`.

    It is called ``figures.tex``, or ``figures_single.tex`` for single columns. Returns its path.
    """
    chosen = list(exported)
    known = {figure.system for figure in chosen} & set(systems.TITLES)
    rows = {system: of_results(results, system).rows for system in known}
    path = output / ("figures.tex" if column == "double" else f"figures_{column}.tex")
    folder = output.resolve().name
    parts = [f"% \\graphicspath{{{{{folder}/}}}} \\input{{{folder}/{path.stem}}}\n"]
    for figure in chosen:
        answered = [
            row
            for row in rows.get(figure.system, ())
            if figure.name in {source.id for source in figures_of(row.claim.id)}
        ]
        parts.append(_environment(figure, answered, column, format))
    files.write_bytes(path, "\n".join(parts).encode())
    return path


def _environment(figure: StoredFigure, rows: Sequence[Row], column: str, format: str) -> str:
    name = f"{figure.system}_{figure.name}"
    title = figures.caption(figure.chart()) or f"{figure.system}, {figure.name}."
    environment, width = ("figure*", "text") if column == "double" else ("figure", "column")
    return rf"""\begin{{{environment}}}
  \centering
  \includegraphics[width=\{width}width]{{{figure.file(column, format).as_posix()}}}
  \caption{{{" ".join([escaped(title), *_claims(rows)])}}}
  \label{{fig:{name}}}
\end{{{environment}}}
"""


def _claims(rows: Sequence[Row]) -> list[str]:
    """Return the sentence of the claims that a figure answers, by what they are judged by."""
    parts = []
    for evidence, judged in groupby(sorted(rows, key=_evidence), _evidence):
        claims = ", ".join(_claim(row) for row in judged)
        parts.append(f"{claims}; judged by: {escaped(evidence)}" if evidence else claims)
    return [f"Claims that it answers: {'; '.join(parts)}."] if parts else []


def _evidence(row: Row) -> str:
    return row.evidence


def _claim(row: Row) -> str:
    ours = row.with_unit(row.answer.ours)
    values = escaped(f"(paper: {row.paper_text}, ours: {ours}; {row.verdict})")
    name = escaped(row.claim.id).replace(".", r".\allowbreak{}")
    return rf"\texttt{{{name}}} {values}"
