"""Notebooks are thin and stored clean, and each runs from start to end at smoke scale."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import json
import operator
import re
import xml.etree.ElementTree as ET
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from nbconvert import exporters

from tests.conftest import Smoke
from tests.test_explorers import explorer
from workbench.figures import width_px
from workbench.reproduction import parameters, recordings, systems
from workbench.reproduction.claims import VERDICTS, load_claims
from workbench.reproduction.figure import Figure
from workbench.reproduction.manifest import NAME
from workbench.reproduction.notebook import Results
from workbench.reproduction.notebook_files import read_notebook
from workbench.reproduction.results import read_manifest, system_of
from workbench.reproduction.scorecard import verdicts
from workbench.utils.files import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
CLAIMS = load_claims()
PAPERS = [path for path in NOTEBOOKS if system_of(path.stem) in set(CLAIMS["system"])]
LAST_SECTIONS = ["Scorecard", "Deviations", "References"]
LONGEST_FUNCTION = 12  # lines; an example model or chart fits, an algorithm belongs to the package
PLUGGED_IN = {"largest_tenth"}  # shows how little a system of one's own takes
KINDS = {kind.__name__: kind for kind in (bool, int, float, str)}
MARKS = re.compile(r"mark-(rect|line|symbol|area|rule) role-mark")  # data, not axes
HTML_EXPORTER: Any = exporters.HTMLExporter()  # type: ignore[no-untyped-call]
SVG = "{http://www.w3.org/2000/svg}"

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
every_paper = pytest.mark.parametrize("path", PAPERS, ids=lambda path: path.stem)


@cache
def content(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def sources(path: Path, kind: str) -> list[str]:
    """Return the text of each cell of a kind."""
    return ["".join(one["source"]) for one in content(path)["cells"] if one["cell_type"] == kind]


def declared(path: Path) -> dict[str, tuple[str, object]]:
    """Return each parameter's annotation and default; fail where the cell holds anything else."""
    found = {}
    for statement in ast.parse(sources(path, "code")[0]).body:
        assert isinstance(statement, ast.AnnAssign), ast.unparse(statement)
        assert isinstance(statement.target, ast.Name)
        assert statement.value is not None, ast.unparse(statement)
        annotation = ast.unparse(statement.annotation)
        found[statement.target.id] = annotation, ast.literal_eval(statement.value)
    return found


def sections(path: Path) -> list[tuple[str, str, list[str]]]:
    """Return each ``##`` section: its heading, its text, its code cells."""
    found: list[tuple[str, str, list[str]]] = [("", "", [])]
    for cell in content(path)["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            found[-1][2].append(source)
            continue
        for part in re.split(r"(?m)^(?=## )", source):
            if part.startswith("## "):
                heading, _, text = part.removeprefix("## ").partition("\n")
                found.append((heading.strip(), text, []))
            else:
                heading, text, code = found[-1]
                found[-1] = heading, text + part, code
    return found


def calls(path: Path, kind: str) -> list[Figure]:
    """Return the figures that a notebook gives to ``results.show`` or ``results.table``."""
    code = "\n".join(sources(path, "code"))
    found = re.findall(rf"\bresults\.{kind}\(\s*(\w+\.\w+)", code)
    if not found:
        return []
    package = importlib.import_module(f"workbench.{system_of(path.stem)}.paper")
    systems.figures(system_of(path.stem))  # imports what the package consists of
    return [operator.attrgetter(one)(package) for one in found]


def kept_names(path: Path) -> tuple[set[str], set[str]]:
    """Return the names of the frames and of the figures that a notebook's cells keep."""
    code = "\n".join(sources(path, "code"))
    shown = {one.id for one in calls(path, "show")}
    tables = {one.id for one in calls(path, "table")}
    kept = set(re.findall(r"\bresults\.keep\(\s*\"(\w+)\"", code))
    drawn = set(re.findall(r"\bresults\.draw\(\s*\"(\w+)\"", code))
    return shown | tables | kept | scorecards(code), shown | drawn | scorecards(code)


def count_of_pictures(path: Path) -> int:
    """Figures, the explorer's own, and what is recorded beside what was run."""
    shown = [one for kind in ("show", "table") for one in calls(path, kind)]
    figures = [one for one in shown if one.chart is not None]
    found = [recordings.load(system_of(path.stem), one.id) for one in figures]
    beside = [one for one in found if one is not None and one.scale == "paper"]
    explorer = {"explorer"} if "explor" in "".join(sources(path, "code")) else set()
    return len(kept_names(path)[1] | explorer) + len(beside)


def timed_figures(path: Path) -> set[str]:
    """Return the names of the figures that hold timings of this machine."""
    code = "\n".join(sources(path, "code"))
    shown = {one.id for one in calls(path, "show") if one.timings}
    drawn = set(re.findall(r"\bresults\.draw\(\s*\"(\w+)\"[^\n]*timings=True", code))
    return shown | drawn | scorecards(code)


def scorecards(code: str) -> set[str]:
    """Return the name under which a notebook keeps the picture of its scorecard, if it does."""
    return {"scorecard"} if "scorecard.show(card, results)" in code else set()


def test_there_are_notebooks_to_test() -> None:
    assert "00_start_here" in [path.stem for path in NOTEBOOKS]
    assert {system_of(path.stem) for path in PAPERS} >= set(systems.TITLES)


# --- As stored -----------------------------------------------------------------------------------


@every_notebook
def test_is_stored_without_what_a_run_leaves(path: Path) -> None:
    notebook = content(path)
    assert notebook["nbformat"] == 4
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    assert set(notebook["metadata"]) <= {"kernelspec", "language_info"}
    assert set(notebook["metadata"]["language_info"]) == {"name"}  # no version of whoever saved it
    identities = [cell["id"] for cell in notebook["cells"]]
    assert len(set(identities)) == len(identities)
    for cell in notebook["cells"]:
        assert set(cell["metadata"]) <= {"tags"}
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None


@every_notebook
def test_begins_with_a_title_and_its_parameters(path: Path) -> None:
    first, *others = content(path)["cells"]
    assert first["cell_type"] == "markdown"
    assert "".join(first["source"]).startswith("# ")
    tags = [cell["metadata"].get("tags", []) for cell in others if cell["cell_type"] == "code"]
    assert "parameters" in tags[0]
    assert not any("parameters" in one for one in tags[1:])
    assert {"scale", "seed", "output"} <= set(declared(path))


@every_notebook
def test_every_default_has_its_annotated_type_and_is_valid(path: Path) -> None:
    for name, (annotation, default) in declared(path).items():
        assert type(default) is KINDS[annotation], f"{name}: {annotation} = {default!r}"
        if name == parameters.DRIVER_PARAMETER:
            assert default == ""
        else:
            known = systems.parameters(system_of(path.stem))
            parameter = parameters.own(name, default, known)
            assert parameter.kind is KINDS[annotation], name
            assert parameter.parse(str(default)) == default
    assert declared(path)["scale"][1] == "default"


@every_paper
def test_of_a_paper_starts_where_its_explorer_does(path: Path) -> None:
    setting = dataclasses.asdict(explorer(system_of(path.stem)).Setting())
    defaults = {name: default for name, (_, default) in declared(path).items()}
    assert {name: defaults.get(name) for name in setting} == setting


@every_notebook
def test_uses_every_parameter_that_it_offers(path: Path) -> None:
    _, *cells = sources(path, "code")
    used = {
        node.id
        for cell in cells
        for node in ast.walk(ast.parse(cell))
        if isinstance(node, ast.Name)
    }
    if any("Setting.of(globals())" in cell for cell in cells):
        used |= {field.name for field in dataclasses.fields(explorer(system_of(path.stem)).Setting)}
    unused = set(declared(path)) - used
    # A notebook without experiments and chance takes both, so that one command fits all.
    assert unused <= (set() if path in PAPERS else {"scale", "seed"})


@every_notebook
def test_holds_no_algorithm(path: Path) -> None:
    for cell in sources(path, "code"):
        for node in ast.walk(ast.parse(cell)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                assert lines <= LONGEST_FUNCTION, f"{node.name} has {lines} lines"
                own = path not in PAPERS or node.name in PLUGGED_IN
                assert own, f"{node.name} belongs to the package"


@every_notebook
def test_needs_nothing_of_one_machine_and_nothing_from_the_network(path: Path) -> None:
    for cell in sources(path, "code"):
        assert "://" not in cell
        assert not re.search(r"^\s*[!%]", cell, re.MULTILINE), "shell commands, magics"
        for node in ast.walk(ast.parse(cell)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not re.match(r"/|~|[A-Za-z]:\\|\\\\", node.value), node.value
    for text in sources(path, "markdown"):
        # A link waits for its reader; an image or script would be fetched.
        assert not re.search(r"!\[[^]]*\]\(\s*\w+:|<\s*(img|script|iframe|link)\b", text)
        assert not re.search(r"(?<![\w.:/])/(home|root|tmp|usr|opt|mnt|work|Users)/", text)


@every_paper
def test_of_a_paper_begins_with_its_claims(path: Path) -> None:
    _, text, _ = sections(path)[0]
    assert re.search(r"paper claims", text, re.IGNORECASE)


@every_paper
def test_of_a_paper_ends_with_scorecard_deviations_references(path: Path) -> None:
    scorecard, deviations, references = sections(path)[-3:]
    assert [scorecard[0], deviations[0], references[0]] == LAST_SECTIONS
    assert any(f'of_frames("{system_of(path.stem)}"' in cell for cell in scorecard[2])
    assert scorecards("\n".join(scorecard[2]))
    for _, text, code in (deviations, references):
        assert re.search(r"(?m)^- \S", text)
        assert code == []


@every_paper
def test_of_a_paper_shows_a_verdict_on_every_claim_beside_its_figure(path: Path) -> None:
    system = system_of(path.stem)
    package = importlib.import_module(f"workbench.{system}.paper")
    systems.figures(system)  # imports what the package consists of
    shown: set[str] = set()
    for cell in sources(path, "code"):
        for given in re.findall(r"scorecard\.verdicts\(\s*results,([^)]*)\)", cell):
            own = [operator.attrgetter(name)(package) for name in re.findall(r"\w+\.\w+", given)]
            shown |= {row.claim.id for row in verdicts(Results(system), *own).rows}
    claims = CLAIMS.filter(pl.col("check") != "input", system=system)["id"]
    assert set(claims) <= shown


# --- As run --------------------------------------------------------------------------------------


def folder_of(smoke: Smoke, path: Path) -> Path:
    return smoke.results / path.stem


@every_notebook
def test_a_run_leaves_a_manifest_of_all_that_it_made(path: Path, smoke: Smoke) -> None:
    folder = folder_of(smoke, path)
    manifest = read_manifest(folder)
    assert manifest is not None
    assert (manifest.of, manifest.system) == (path.stem, system_of(path.stem))
    assert manifest.altered(folder) == []
    made = {one.relative_to(folder).as_posix() for one in folder.rglob("*") if one.is_file()}
    assert made == {*manifest.outputs, NAME}
    notebook = read_notebook(smoke.root / "notebooks" / path.name)
    asked = {"scale": "smoke", "trainings": "all"}
    known = {name: value for name, value in asked.items() if name in notebook.defaults}
    assert manifest.arguments == {**notebook.defaults, **known}


@every_notebook
def test_a_run_keeps_every_frame_and_figure_that_its_cells_name(path: Path, smoke: Smoke) -> None:
    folder = folder_of(smoke, path)
    frames, figures = kept_names(path)
    assert figures
    assert {one.stem for one in folder.glob("*.parquet")} == frames
    for name in frames:
        frame = pl.read_parquet(folder / f"{name}.parquet")
        assert frame.height > 0, name
        numbers = frame.select(pl.col(pl.Float64))
        assert not any(frame[column].is_nan().any() for column in numbers.columns), name
    timings = timed_figures(path)
    for place, named in (("figures", figures - timings), ("timings", timings)):
        assert {one.stem for one in (folder / place).glob("*.svg")} == named


@every_notebook
def test_every_figure_of_a_run_shows_something(path: Path, smoke: Smoke) -> None:
    for name in kept_names(path)[1]:
        place = "timings" if name in timed_figures(path) else "figures"
        figure = folder_of(smoke, path) / place / f"{name}.svg"
        drawing = ET.parse(figure).getroot()
        assert drawing.tag == f"{SVG}svg"
        assert float(drawing.attrib["width"]) == pytest.approx(width_px("double"), abs=4)
        assert float(drawing.attrib["height"]) > 48
        values = [value for element in drawing.iter() for value in element.attrib.values()]
        assert not any(re.search(r"NaN|undefined|Infinity", value) for value in values), name
        groups = [group for group in drawing.iter(f"{SVG}g") if MARKS.match(group.get("class", ""))]
        marks = [mark for group in groups for mark in group if mark.tag != f"{SVG}g"]
        assert len(marks) >= 2, name
        texts = ["".join(text.itertext()) for text in drawing.iter(f"{SVG}text")]
        assert sum(bool(text.strip()) for text in texts) >= 5, (
            name
        )  # a title, axes and their labels
        specification = json.loads(figure.with_suffix(".vl.json").read_text(encoding="utf-8"))
        assert specification["$schema"].startswith("https://vega.github.io/schema/vega-lite/")


@every_notebook
def test_the_executed_copy_is_fit_to_be_read(path: Path, smoke: Smoke) -> None:
    text = (folder_of(smoke, path) / path.name).read_text(encoding="utf-8")
    assert str(smoke.root) not in text
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    assert all(cell["execution_count"] for cell in cells)
    outputs = [output for cell in cells for output in cell["outputs"]]
    strange = [
        output
        for output in outputs
        if output["output_type"] == "error" or output.get("name") == "stderr"
    ]
    assert strange == []
    pictures = [one["data"] for one in outputs if "image/svg+xml" in one.get("data", {})]
    assert len(pictures) == count_of_pictures(path)
    assert all("image/png" in picture for picture in pictures)  # shown where SVG is not trusted


@every_notebook
def test_an_exported_page_shows_every_picture(path: Path, smoke: Smoke) -> None:
    page, _ = HTML_EXPORTER.from_filename(str(folder_of(smoke, path) / path.name))
    assert "widgets" not in content(folder_of(smoke, path) / path.name)["metadata"]
    pictures = re.findall(r'<div class="jp-RenderedSVG', page)
    assert len(pictures) == count_of_pictures(path)


@pytest.fixture(scope="module")
def card(smoke: Smoke) -> list[dict[str, Any]]:
    """Rows of the scorecard of all systems."""
    done = smoke.workbench("scorecard", "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


@every_paper
def test_the_scorecard_of_a_run_has_a_verdict_for_every_claim(
    path: Path, smoke: Smoke, card: list[dict[str, Any]]
) -> None:
    system = system_of(path.stem)
    rows = [row for row in card if row["system"] == system]
    identities = CLAIMS.filter(pl.col("system") == system)["id"].to_list()
    assert [row["id"] for row in rows] == identities
    for row in rows:
        assert row["verdict"] in VERDICTS
        assert row["role"] in ("input", "fit", "predicted")
        if row["verdict"] in ("not run", "not reproduced"):
            assert row["reason"], row["id"]
    ran = [row for row in rows if row["evidence"].startswith("this run")]  # the rest is recorded
    assert sum(row["verdict"] in ("near", "holds") for row in ran) > len(ran) / 3

    # The executed copy shows the same ones, as text that Jupyter renders.
    cells = content(folder_of(smoke, path) / path.name)["cells"]
    shown = [
        "".join(output["data"]["text/markdown"])
        for cell in cells
        for output in cell.get("outputs", ())
        if "text/markdown" in output.get("data", {})
    ]
    assert [name for name in identities if f"`{name}`" not in "".join(shown)] == []
