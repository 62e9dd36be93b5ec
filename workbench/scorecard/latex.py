"""Exported figures as a LaTeX fragment: each with its caption, its label and the claims it answers.

The caption is the chart's own title and setting. The fragment needs graphicx alone.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from workbench import figures, systems
from workbench.results import StoredFigure
from workbench.scorecard.judging import of_results
from workbench.scorecard.one_claim import figures_of
from workbench.scorecard.scorecard import Row
from workbench.utils import files

FORMATS: Final = ("pdf", "png")
"""What `\\includegraphics` takes; SVG needs a converter."""

_ESCAPES: Final = {
    **{char: f"\\{char}" for char in "%_&#${}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "--": "-{}-{}",  # no dash
    "\N{EN DASH}": "--",
    "\N{EM DASH}": "---",
    "\N{RIGHT SINGLE QUOTATION MARK}": "'",
    "\N{HORIZONTAL ELLIPSIS}": r"\ldots{}",
    "\N{DEGREE SIGN}": r"\ensuremath{^\circ}",
    "\N{SUPERSCRIPT TWO}": r"\ensuremath{^2}",
    **{
        char: rf"\ensuremath{{\{command}}}"
        for char, command in {
            **{"<=": "le", "\N{LESS-THAN OR EQUAL TO}": "le"},
            **{">=": "ge", "\N{GREATER-THAN OR EQUAL TO}": "ge"},
            **{"\N{MULTIPLICATION SIGN}": "times", "\N{MIDDLE DOT}": "cdot"},
            **{"\N{PLUS-MINUS SIGN}": "pm", "\N{ALMOST EQUAL TO}": "approx"},
            **{"\N{RIGHTWARDS ARROW}": "rightarrow", "\N{INFINITY}": "infty"},
            **{"\N{MICRO SIGN}": "mu", "\N{GREEK SMALL LETTER MU}": "mu"},
            **{"\N{GREEK SMALL LETTER ALPHA}": "alpha", "\N{GREEK SMALL LETTER LAMDA}": "lambda"},
        }.items()
    },
    "\N{MINUS SIGN}": r"\ensuremath{-}",
}
_ESCAPED: Final = re.compile("|".join(map(re.escape, sorted(_ESCAPES, key=len, reverse=True))))


def escaped(text: str) -> str:
    """Return text as LaTeX prints it, on one line; letters with accents stay as they are."""
    return _ESCAPED.sub(lambda found: _ESCAPES[found[0]], " ".join(text.split()))


def write(
    exported: Iterable[StoredFigure], output: Path, results: Path, column: str, format: str
) -> Path:
    """Write a fragment with the figures that were exported to the folder `output`.

    It is called ``figures.tex``, or ``figures_single.tex`` for single columns. Returns its path.
    """
    chosen = list(exported)
    rows = {
        system: of_results(results, system).rows
        for system in {figure.system for figure in chosen} & set(systems.TITLES)
    }
    path = output / ("figures.tex" if column == "double" else f"figures_{column}.tex")
    folder = output.resolve().name
    head = f"% \\graphicspath{{{{{folder}/}}}} \\input{{{folder}/{path.stem}}}\n"
    environments = []
    for figure in chosen:
        of = (row for row in rows.get(figure.system, ()) if _answers(figure, row))
        environments.append(_environment(figure, list(of), column, format))
    files.write_bytes(path, "\n".join([head, *environments]).encode())
    return path


def _answers(figure: StoredFigure, row: Row) -> bool:
    return figure.name in {source.id for source in figures_of(row.id)}


def _environment(figure: StoredFigure, rows: Sequence[Row], column: str, format: str) -> str:
    name = f"{figure.system}_{figure.name}"
    said = figures.caption(figure.chart()) or f"{figure.system}, {figure.name}."
    caption = " ".join([escaped(said), *_claims(rows)])
    environment, width = ("figure*", "text") if column == "double" else ("figure", "column")
    lines = [
        f"\\begin{{{environment}}}",
        "  \\centering",
        f"  \\includegraphics[width=\\{width}width]{{{figure.file(column, format).as_posix()}}}",
        f"  \\caption{{{caption}}}",
        f"  \\label{{fig:{name}}}",
        f"\\end{{{environment}}}",
    ]
    return "\n".join(lines) + "\n"


def _claims(rows: Iterable[Row]) -> list[str]:
    """Return the sentence of the claims that a figure answers, by what they are judged by."""
    by_evidence = defaultdict[str, list[str]](list)
    for row in rows:
        ours = f"{row.ours_text} {row.symbol}" if row.check != "order" else row.ours_text
        values = f"(paper: {row.paper_text}, ours: {ours.strip()}; {row.verdict})"
        claim = escaped(row.id).replace(".", r".\allowbreak{}")
        by_evidence[row.evidence].append(f"\\texttt{{{claim}}} {escaped(values)}")
    if not by_evidence:
        return []
    parts = [
        f"{', '.join(claims)}; judged by: {escaped(evidence)}" if evidence else ", ".join(claims)
        for evidence, claims in by_evidence.items()
    ]
    return [f"Claims that it answers: {'; '.join(parts)}."]
