"""The LaTeX fragment beside exported figures: captions, claims, labels, and text escaped."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import altair as alt
import polars as pl
import pytest

from tests.reproduction.scorecard.helpers import FIG1, Toy
from tests.test_cli import workbench_command
from workbench.reproduction.manifest import NAME, Manifest, file_digest
from workbench.reproduction.notebook import Results
from workbench.reproduction.scorecard.latex import escaped


def draw(frame: pl.DataFrame) -> alt.Chart:
    title = ["Saved: 40 % & more_or_less", "batch 32 × 2", "(cost model)"]
    chart: alt.Chart = alt.Chart(frame, title=title).mark_bar().encode(x="reduction", y="planner")
    return chart


def exported(toy: Toy, output: Path, *words: str) -> str:
    """Export two figures of the toy, one of which holds timings; return the fragment."""
    toy.store(fig1=FIG1)
    folder = toy.results / "09_toy"
    kept = Results("toy", folder)
    kept.show(replace(toy.figures["fig1"], chart=draw))
    kept.show(replace(toy.figures["fig2"], chart=draw, timings=True))
    files = {path: file_digest(path) or "" for path in folder.rglob("fig*.*")}
    outputs = {path.relative_to(folder).as_posix(): sha for path, sha in files.items()}
    (folder / NAME).write_text(replace(Manifest.read(folder), outputs=outputs).to_json())
    where = ("--results", str(toy.results), "--output", str(output))
    result = workbench_command("figures", *words, *where)
    assert result.exit_code == 0, result.output
    *drawn, fragment = (Path(line) for line in result.stdout.split())
    text = fragment.read_text()
    included = re.findall(r"\\includegraphics\[width=\S+?\]\{(.+)\}", text)
    assert [output / name for name in included] == drawn
    assert all(path.is_file() for path in drawn)
    return text


def test_every_figure_has_its_caption_claims_and_label(toy: Toy, tmp_path: Path) -> None:
    text = exported(toy, tmp_path / "out", "--format", "pdf")
    first, second = re.findall(r"(?s)\\begin\{figure\*\}.+?\\end\{figure\*\}", text)
    title = r"Saved: 40 \% \& more\_or\_less; batch 32 \ensuremath{\times} 2 (cost model)."
    assert rf"\caption{{{title} Claims that it answers: " in first
    best = r"\texttt{toy.\allowbreak{}fig1.\allowbreak{}best} (paper: 40 \%, ours: 30 \%; "
    order = r"\texttt{toy.\allowbreak{}fig2.\allowbreak{}order} (paper: true, ours: true; holds)"
    assert best in first
    assert f"{order}; judged by: this run, smoke scale." in first
    assert "speedup" in second
    labels = [re.findall(r"\\label\{(.+)\}", part) for part in (first, second)]
    assert labels == [["fig:toy_fig1"], ["fig:toy_fig2"]]


def test_a_figure_in_one_column(toy: Toy, tmp_path: Path) -> None:
    words = ("toy_fig1", "--format", "png", "--column", "single")
    text = exported(toy, tmp_path / "out", *words)
    assert r"\includegraphics[width=\columnwidth]{toy_fig1_single.png}" in text
    assert text.count(r"\begin{figure}") == text.count(r"\end{figure}") == 1


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("5 % of a_b & #3, $2 {x}", r"5 \% of a\_b \& \#3, \$2 \{x\}"),
        (r"a\b~c^d", r"a\textbackslash{}b\textasciitilde{}c\textasciicircum{}d"),
        ("<= 1 < 2 >= 1", r"\ensuremath{\le} 1 \textless{} 2 \ensuremath{\ge} 1"),
        ("2 × 3 ≤ 7 ± 1", r"2 \ensuremath{\times} 3 \ensuremath{\le} 7 \ensuremath{\pm} 1"),
        ("--scale a\n b\u00a0c", r"-{}-{}scale a b c"),
        ("Müller, Gödel", "Müller, Gödel"),
    ],
)
def test_text_is_escaped(text: str, latex: str) -> None:
    assert escaped(text) == latex
