"""What notebooks show and keep can be displayed offline, and read back."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import altair as alt
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tests.reproduction.manifests import MADE
from workbench.reproduction import results
from workbench.reproduction.figure import Figure
from workbench.reproduction.manifest import Manifest, file_digest
from workbench.reproduction.notebook import Results
from workbench.utils.checks import UserError

FRAME = pl.DataFrame({"x": [1, 2, 3], "seconds": [1.0, 4.0, 9.0]})


def draw(frame: pl.DataFrame) -> alt.Chart:
    chart: alt.Chart = alt.Chart(frame).mark_line().encode(x="x", y="seconds")
    return chart


FIG1 = Figure(id="fig1", compute=FRAME.clone, chart=draw)


def store(folder: Path, notebook: str = "01_toy") -> Manifest:
    """Keep a frame and a figure as a run of a notebook would."""
    kept = Results("toy", folder / notebook)
    kept.show(FIG1)
    kept.keep("table1", FRAME.head(1))
    files = [path for path in sorted((folder / notebook).rglob("*")) if path.is_file()]
    manifest = replace(
        MADE,
        of=notebook,
        system=results.system_of(notebook),
        arguments={"scale": "smoke", "seed": 3},
        outputs={
            path.relative_to(folder / notebook).as_posix(): file_digest(path) or ""
            for path in files
        },
    )
    (folder / notebook / "manifest.json").write_text(manifest.to_json())
    return manifest


def test_shows_without_keeping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    kept = Results("toy")
    figure = kept.show(FIG1)
    assert_frame_equal(kept.frames["fig1"], FRAME)
    assert list(tmp_path.iterdir()) == []
    bundle = figure._repr_mimebundle_()
    assert bundle["image/svg+xml"].startswith("<svg")
    assert base64.b64decode(bundle["image/png"]).startswith(b"\x89PNG")
    assert "http" not in bundle["image/svg+xml"].replace("http://www.w3.org/", "")


def test_keeps_frame_and_figure(tmp_path: Path) -> None:
    figure = Results("toy", str(tmp_path)).show(FIG1)
    assert_frame_equal(pl.read_parquet(tmp_path / "fig1.parquet"), FRAME)
    assert (tmp_path / "figures" / "fig1.svg").read_text() == figure.drawing.svg
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == [
        "fig1.parquet",
        "fig1.svg",
        "fig1.vl.json",
    ]


def test_large_frames_can_be_drawn(tmp_path: Path) -> None:
    many = pl.DataFrame({"x": range(6000), "seconds": [0.0] * 6000})
    Results("toy", tmp_path).show(Figure(id="many", compute=many.clone, chart=draw))
    assert (tmp_path / "figures" / "many.vl.json").stat().st_size > 6000


@pytest.mark.parametrize("name", ["", "Fig1", "a/b", "../a", "5fig", "a b"])
def test_a_name_is_a_plain_word(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="small letters"):
        Results("toy", tmp_path).keep(name, FRAME)
    assert list(tmp_path.iterdir()) == []


def test_reads_back_what_was_stored(tmp_path: Path) -> None:
    store(tmp_path)
    manifest, frames, damaged = results.load(tmp_path, "toy")
    assert_frame_equal(frames["fig1"], FRAME)
    assert_frame_equal(frames["table1"], FRAME.head(1))
    assert manifest is not None
    assert (manifest.scale, manifest.seconds, damaged) == ("smoke", 60.0, [])
    assert manifest.altered(tmp_path / "01_toy") == []


def test_nothing_stored_is_no_error(tmp_path: Path) -> None:
    assert results.load(tmp_path, "toy") == (None, {}, [])
    assert results.load(tmp_path / "nowhere", "toy") == (None, {}, [])


def test_the_first_of_a_systems_notebooks_stands_for_it(tmp_path: Path) -> None:
    store(tmp_path, "01_toy")
    store(tmp_path, "09_toy")
    manifest = results.load(tmp_path, "toy").manifest
    assert manifest is not None
    assert manifest.of == "01_toy"
    with pytest.raises(UserError, match="'toy' may be any of 01_toy, 09_toy"):
        results.stored_figures(tmp_path, ["toy"])


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": 1}', '{"format": 3}', "[" * 10**5])
def test_a_spoilt_manifest_is_damage(tmp_path: Path, content: str) -> None:
    store(tmp_path)
    path = tmp_path / "01_toy" / "manifest.json"
    path.write_text(content)
    assert results.stored(tmp_path) == {}
    assert results.load(tmp_path, "toy").damaged == [path]
    assert results.load(tmp_path, "other").damaged == []
    with pytest.raises(ValueError, match="cannot be read: run `workbench reproduce`"):
        export(tmp_path, tmp_path / "out")


def test_hidden_folders_are_overlooked(tmp_path: Path) -> None:
    store(tmp_path, ".01_toy.partial-x")
    assert results.stored(tmp_path) == {}


def export(results_folder: Path, output: Path, names: Sequence[str] = (), **how: str) -> list[Path]:
    """Export stored figures, all of which can be drawn."""
    chosen = results.stored_figures(results_folder, names)
    written, failed = results.export_figures(chosen, output, **how)
    assert failed == []
    return list(written.values())


@pytest.mark.parametrize("damage", ["flipped", "missing"])
def test_a_damaged_figure_is_not_drawn_and_others_are(tmp_path: Path, damage: str) -> None:
    Results("toy", tmp_path / "01_toy").show(replace(FIG1, id="fig2"))
    store(tmp_path)
    path = tmp_path / "01_toy" / "figures" / "fig1.vl.json"
    if damage == "missing":
        path.unlink()
    else:
        path.write_text(path.read_text().replace("9.0", "8.0"))
    chosen = results.stored_figures(tmp_path)
    written, failed = results.export_figures(chosen, tmp_path / "out")
    assert list(written.values()) == [tmp_path / "out" / "toy_fig2.svg"]
    (why,) = failed
    assert why.startswith(f"{path}: missing, or no longer what the run wrote")
    assert "workbench reproduce 01_toy" in why


def test_altered_outputs_are_named(tmp_path: Path) -> None:
    manifest = store(tmp_path)
    (tmp_path / "01_toy" / "table1.parquet").unlink()
    (tmp_path / "01_toy" / "figures" / "fig1.svg").write_text("<svg/>")
    assert manifest.altered(tmp_path / "01_toy") == ["figures/fig1.svg", "table1.parquet"]


@pytest.mark.parametrize(
    ("format", "column", "name", "magic"),
    [
        ("svg", "double", "toy_fig1.svg", b"<svg"),
        ("pdf", "single", "toy_fig1_single.pdf", b"%PDF"),
        ("png", "single", "toy_fig1_single.png", b"\x89PNG"),
    ],
)
def test_exports_stored_figures(
    tmp_path: Path, format: str, column: str, name: str, magic: bytes
) -> None:
    store(tmp_path / "results")
    written = export(tmp_path / "results", tmp_path / "out", ["toy"], format=format, column=column)
    assert written == [tmp_path / "out" / name]
    assert written[0].read_bytes().startswith(magic)


def test_figures_with_timings_are_kept_apart(tmp_path: Path) -> None:
    folder = tmp_path / "results" / "01_toy"
    Results("toy", folder).show(replace(FIG1, id="fig2", timings=True))
    store(tmp_path / "results")
    assert {one.name for one in (folder / "timings").iterdir()} == {"fig2.svg", "fig2.vl.json"}
    assert {one.stem for one in (folder / "figures").glob("*.svg")} == {"fig1"}
    figures = tmp_path / "figures"
    assert results.copy_figures(tmp_path / "results", "01_toy", figures) == [
        figures / "toy_fig1.svg"
    ]
    written = export(tmp_path / "results", figures)
    assert written == [figures / "toy_fig1.svg", figures / "timings" / "toy_fig2.svg"]


def test_export_repeats_the_kept_svg(tmp_path: Path) -> None:
    store(tmp_path / "results")
    (again,) = export(tmp_path / "results", tmp_path / "out")
    kept = tmp_path / "results" / "01_toy" / "figures" / "fig1.svg"
    assert again.read_bytes() == kept.read_bytes()


@pytest.mark.parametrize(
    ("names", "format", "column", "message"),
    [
        (["toi"], "svg", "double", "Did you mean 'toy'"),
        ([], "pfd", "double", "Did you mean 'pdf'"),
        ([], "svg", "singel", "Did you mean 'single'"),
    ],
)
def test_export_refuses_unknown_names(
    tmp_path: Path, names: list[str], format: str, column: str, message: str
) -> None:
    store(tmp_path)
    with pytest.raises(ValueError, match=message):
        export(tmp_path, tmp_path / "out", names, format=format, column=column)
    assert not (tmp_path / "out").exists()


def test_export_of_nothing_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no results yet; `workbench reproduce`"):
        export(tmp_path, tmp_path / "out")
    manifest = store(tmp_path)
    (tmp_path / "01_toy/manifest.json").write_text(replace(manifest, outputs={}).to_json())
    for names, whose in ((["toy"], "toy"), ([], "any notebook")):
        with pytest.raises(UserError, match=f"hold no figures of {whose}; Results.show"):
            export(tmp_path, tmp_path / "out", names)
