"""The LaTeX fragment beside exported figures: captions, claims, labels, and text escaped."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import altair as alt
import polars as pl
import pytest

from tests.scorecard.helpers import FIG1, Toy
from tests.test_cli import refused, workbench_command
from workbench.notebook import Results
from workbench.scorecard.latex import escaped
from workbench.store.manifest import NAME, Manifest, file_digest


def draw(frame: pl.DataFrame) -> alt.Chart:
    title = ["Saved: 40 % & more_or_less", "batch 32 × 2", "(cost model)"]
    chart: alt.Chart = alt.Chart(frame, title=title).mark_bar().encode(x="reduction", y="planner")
    return chart


@pytest.fixture
def drawn(toy: Toy) -> Toy:
    """Store the toy with two figures, one of which holds timings."""
    toy.change("fig1", chart=draw)
    toy.store(fig1=FIG1)
    kept = Results("toy", toy.results / "09_toy")
    kept.show(toy.figures["fig1"])
    kept.show(replace(toy.figures["fig2"], chart=draw, timings=True))
    manifest = toy.results / "09_toy" / NAME
    files = {path: file_digest(path) or "" for path in manifest.parent.rglob("fig*.*")}
    outputs = {path.relative_to(manifest.parent).as_posix(): sha for path, sha in files.items()}
    made = replace(Manifest.read(manifest.parent), system="toy", outputs=outputs)
    manifest.write_text(made.to_json())
    return toy


def exported(toy: Toy, output: Path, *words: str) -> str:
    where = ("--results", str(toy.results), "--output", str(output))
    result = workbench_command("figures", *words, *where)
    assert result.exit_code == 0, result.output
    written = [Path(line) for line in result.stdout.split()]
    assert written[-1].parent == output
    text = written[-1].read_text()
    included = re.findall(r"\\includegraphics\[width=\S+?\]\{(.+)\}", text)
    assert [output / name for name in included] == written[:-1]
    assert all(path.is_file() for path in written)
    return text


def test_every_figure_has_its_file_caption_claims_and_label(drawn: Toy, tmp_path: Path) -> None:
    text = exported(drawn, tmp_path / "out", "--format", "pdf")
    first, second = re.findall(r"(?s)\\begin\{figure\*\}.+?\\end\{figure\*\}", text)
    title = r"Saved: 40 \% \& more\_or\_less; batch 32 \ensuremath{\times} 2 (cost model)."
    assert rf"\caption{{{title} Claims that it answers: " in first
    best = r"\texttt{toy.\allowbreak{}fig1.\allowbreak{}best} (paper: 40 \%, ours: 30 \%; "
    order = r"\texttt{toy.\allowbreak{}fig2.\allowbreak{}order} (paper: true, ours: true; holds)"
    assert best in first
    assert f"{order}; judged by: this run, smoke scale." in first
    assert "speedup" in second
    assert "fig1" not in second
    assert [re.findall(r"\\label\{(.+)\}", one) for one in (first, second)] == [
        ["fig:toy_fig1"],
        ["fig:toy_fig2"],
    ]


def test_one_figure_alone_in_one_column(drawn: Toy, tmp_path: Path) -> None:
    words = ("toy_fig1", "--format", "png", "--column", "single")
    text = exported(drawn, tmp_path / "out", *words)
    assert re.findall(r"\\includegraphics(.+)", text) == [
        r"[width=\columnwidth]{toy_fig1_single.png}"
    ]
    assert text.count(r"\begin{figure}") == text.count(r"\end{figure}") == 1


def test_what_can_be_drawn_is_exported_though_another_figure_cannot(
    drawn: Toy, tmp_path: Path
) -> None:
    (drawn.results / "09_toy" / "figures" / "fig1.vl.json").write_text("{}")
    where = ("--results", str(drawn.results), "--output", str(tmp_path / "out"))
    result = workbench_command("figures", "--format", "pdf", "--column", "single", *where)
    assert result.exit_code == 2
    assert "1 of 2 figures written, but not:" in result.stderr
    assert "fig1.vl.json: missing, or no longer what the run wrote" in result.stderr
    text = (tmp_path / "out" / "figures_single.tex").read_text()
    assert re.findall(r"\\label\{(.+)\}", text) == ["fig:toy_fig2"]
    assert [path.name for path in tmp_path.glob("out/**/*.pdf")] == ["toy_fig2_single.pdf"]


def test_unknown_figure_is_refused_with_those_of_its_system(drawn: Toy, tmp_path: Path) -> None:
    where = ("--results", str(drawn.results), "--output", str(tmp_path / "out"))
    said = refused("figures", "toy_fig7", *where)
    assert "unknown figure 'toy_fig7'" in said
    assert "toy_fig1, toy_fig2" in said
    assert "unknown notebook 'tory'" in refused("figures", "tory", *where)
    assert not (tmp_path / "out").exists()


def test_svg_has_no_fragment(drawn: Toy, tmp_path: Path) -> None:
    where = ("--results", str(drawn.results), "--output", str(tmp_path / "out"))
    assert workbench_command("figures", "toy", *where).exit_code == 0
    assert not list((tmp_path / "out").glob("*.tex"))


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
