"""What is installed: from the lock in a fresh clone, and from the wheel without one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from workbench.reproduction.systems import TITLES
from workbench.utils.files import ROOT

EXPLORER = "from workbench.{} import explorer; explorer.draw(explorer.Setting())"
CONDA_NAMES = {"torch": "pytorch", "jupyter-client": "jupyter_client", "ray": "ray-core"}

Run = Callable[..., subprocess.CompletedProcess[str]]

PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
CONSTRAINTS = (ROOT / "constraints.txt").read_text()
LOCK_TEXT = (ROOT / "requirements.lock").read_text()
CONDA: dict[str, Any] = yaml.safe_load((ROOT / "environment.yml").read_text())


def wanted() -> list[Requirement]:
    project = PYPROJECT["project"]
    extras = project["optional-dependencies"].values()
    groups = (project["dependencies"], PYPROJECT["build-system"]["requires"], *extras)
    return [Requirement(line) for lines in groups for line in lines]


def locked() -> dict[str, str]:
    pins = [line.split("==") for line in CONSTRAINTS.splitlines() if not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pins}


def conda() -> dict[str, Requirement]:
    lines = [line for line in CONDA["dependencies"] if isinstance(line, str)]
    (by_pip,) = [line["pip"] for line in CONDA["dependencies"] if isinstance(line, dict)]
    lines += [line for line in by_pip if not line.startswith("--")]
    found = [Requirement(line.replace("python=3", "python==3")) for line in lines]
    assert len({one.name for one in found}) == len(found)
    return {one.name: one for one in found}


class TestRequirements:
    def test_the_lock_satisfies_every_requirement(self) -> None:
        pins = locked()
        for requirement in wanted():
            name = canonicalize_name(requirement.name)
            assert name in pins, f"{name} is not in requirements.lock; run `make lock`"
            assert requirement.specifier.contains(pins[name]), f"{requirement}: run `make lock`"

    def test_the_lock_has_all_that_these_need_and_nothing_else(self) -> None:
        seen: set[tuple[str, str]] = set()
        waiting = [(one.name, extra) for one in wanted() for extra in ("", *one.extras)]
        while waiting:
            name, extra = canonicalize_name(waiting[-1][0]), waiting.pop()[1]
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            for one in map(Requirement, metadata.requires(name) or []):
                if one.marker is None or one.marker.evaluate({"extra": extra}):
                    waiting += [(one.name, further) for further in ("", *one.extras)]
        needed = {name for name, _ in seen}
        gpu = {name for name in needed if re.match(r"nvidia-|cuda-|triton$", name)}
        assert set(locked()) == needed - gpu

    def test_the_lock_pins_torch_for_every_machine(self) -> None:
        assert locked()["torch"] == "2.13.0"
        assert "+" not in LOCK_TEXT
        assert "://" not in LOCK_TEXT
        assert "--" not in CONSTRAINTS
        assert not re.search(r"^(nvidia|cuda|triton)", CONSTRAINTS, re.MULTILINE)

    def test_every_pin_but_pytorch_has_the_hashes_of_its_files(self) -> None:
        names = ("requirements.lock", "constraints.txt")
        pins = {
            name: set(re.findall(r"^\S+==\S+", (ROOT / name).read_text(), re.M)) for name in names
        }
        assert pins["constraints.txt"] - pins["requirements.lock"] == {"torch==2.13.0"}
        hashed = re.findall(
            r"^(\S+==\S+) \\\n    --hash=sha256:[0-9a-f]{64}(?: \\)?$", LOCK_TEXT, re.M
        )
        assert set(hashed) == pins["requirements.lock"]

    def test_conda_asks_for_the_same(self) -> None:
        asked = {name: str(one.specifier) for name, one in conda().items()}
        assert asked.pop("python") == "==3.11"
        assert asked.pop("pip") == ""
        assert asked == {
            CONDA_NAMES.get(one.name, one.name): str(one.specifier) for one in wanted()
        }

    def test_what_the_package_imports_is_declared(self) -> None:
        lines = list(PYPROJECT["project"]["dependencies"])
        lines += PYPROJECT["project"]["optional-dependencies"]["measured"]
        declared = {canonicalize_name(Requirement(line).name) for line in lines}
        owners = metadata.packages_distributions()
        imported: set[str] = set()
        for path in (ROOT / "workbench").rglob("*.py"):
            found = re.findall(
                r"^\s*(?:import|from) ([A-Za-z_]\w*)", path.read_text(), re.MULTILINE
            )
            imported |= {name for name in found if name not in sys.stdlib_module_names}
        owned = {canonicalize_name(owner) for name in imported for owner in owners.get(name, [])}
        assert owned - {"workbench"} <= declared


class TestSetUp:
    """The Makefile's rule, in a clone whose Python and pip are stand-ins that note their calls."""

    @pytest.fixture
    def clone(self, tmp_path: Path) -> Path:
        for name in ("Makefile", "requirements.lock", "constraints.txt", "pyproject.toml"):
            shutil.copy(ROOT / name, tmp_path)
        stand_in(tmp_path / "pip", 'echo "pip $1" >> calls; [ ! -e broken ]')
        stand_in(
            tmp_path / "python",
            '[ "$1" = -c ] && exit; rm -rf .venv; mkdir -p .venv/bin; cp pip .venv/bin;'
            "cp python .venv/bin; echo venv >> calls",
        )
        return tmp_path

    @staticmethod
    def set_up(clone: Path) -> list[str]:
        """Run `make set-up`; returns the calls of stand-ins."""
        (clone / "calls").write_text("")
        make(clone, "set-up", "PYTHON=./python")
        return (clone / "calls").read_text().splitlines()

    def test_installs_once(self, clone: Path) -> None:
        assert self.set_up(clone) == ["venv", "pip install", "pip install"]
        assert self.set_up(clone) == []

    def test_a_changed_lock_is_installed_into_the_same_environment(self, clone: Path) -> None:
        self.set_up(clone)
        later = (clone / ".venv/.installed").stat().st_mtime + 1
        os.utime(clone / "requirements.lock", (later, later))
        assert self.set_up(clone) == ["pip install", "pip install"]

    def test_an_installation_that_failed_or_was_interrupted_starts_again(self, clone: Path) -> None:
        (clone / "broken").touch()
        assert self.set_up(clone) == ["venv", "pip install"]
        (clone / "broken").unlink()
        assert self.set_up(clone) == ["venv", "pip install", "pip install"]

    def test_a_copied_clone_or_one_without_its_python_starts_again(self, clone: Path) -> None:
        self.set_up(clone)
        copied = shutil.copytree(clone, clone / "copied")
        assert "venv" in self.set_up(copied)
        (clone / ".venv/bin/python").unlink()
        assert "venv" in self.set_up(clone)

    def test_a_missing_or_old_python_is_named_in_one_line(self, clone: Path) -> None:
        stand_in(clone / "old", "exit 1")
        for python in ("./old", "python0"):
            ended = make(clone, "set-up", f"PYTHON={python}")
            assert ended.returncode != 0
            line, _ = ended.stderr.splitlines()  # the other is make's own
            assert f"{python} must be Python 3.11 or newer with venv" in line


def stand_in(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # These tests may themselves be run by make, whose options are not meant for this one.
    outer = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "ARGS")
    return subprocess.run(
        ["make", "-s", "-C", folder, *arguments],
        env={name: value for name, value in os.environ.items() if name not in outer},
        capture_output=True,
        text=True,
        check=False,
    )


class TestCommands:
    def test_help_comes_first_and_lists_every_command(self) -> None:
        text = make(ROOT).stdout
        for command in ("reproduce", "test", "test-long", "lab", "lock", "set-up"):
            assert f"  make {command} " in text

    @pytest.mark.parametrize(
        ("status", "arguments", "places"),
        [
            (0, ["ARGS=--scale smoke"], ("data/results", "figures")),
            (1, ["ARGS=--scale smoke"], ("data/results", "figures")),
            (0, ["OUTPUT=trial", "FIGURES=trial/figures"], ("trial", "trial/figures")),
        ],
    )
    def test_reproduce_prints_the_scorecard_whatever_and_fails_when_a_notebook_does(
        self, status: int, arguments: list[str], places: tuple[str, str], tmp_path: Path
    ) -> None:
        stand_in(tmp_path / "workbench", f'echo "ran $*"; [ $1 = scorecard ] || exit {status}')
        run = make(ROOT, "--old-file=set-up", "reproduce", f"BIN={tmp_path}", *arguments)
        (output, figures), scale = places, " --scale smoke" if "ARGS" in arguments[0] else ""
        assert run.stdout.splitlines()[-2:] == [
            f"ran reproduce --output {output} --figures {figures}{scale}",
            f"ran scorecard --results {output} --picture {figures}/scorecard.svg",
        ]
        assert (run.returncode != 0) == (status != 0)

    def test_ci_runs_what_a_developer_runs(self) -> None:
        path = ROOT / ".ci/run"
        assert os.access(path, os.X_OK)
        assert path.read_text().splitlines()[-1] == "make test"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Environment of the wheel alone, whose dependencies are this one's."""
    home = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet"]
    building = ["--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", str(home)]
    subprocess.run([*pip, "wheel", *building, str(ROOT)], check=True)
    (wheel,) = home.glob("*.whl")
    venv.create(home / "environment")
    (packages,) = home.glob("environment/lib/python*/site-packages")
    # Whatever is installed there counts, the clone on its path does not.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    pip += ["--python", str(home / "environment/bin/python")]
    subprocess.run([*pip, "install", "--no-index", "--no-deps", wheel], check=True)
    return home / "environment"


@pytest.fixture
def run(environment: Path, tmp_path: Path) -> Iterator[Run]:
    """Run a command of the environment in an empty folder; the package stays as it is."""

    def ended(command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = f"{environment}/bin/{command}"
        return subprocess.run(
            [command, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    def files() -> set[Path]:
        return {path for path in environment.rglob("*") if path.suffix != ".pyc"}

    before = files()
    yield ended
    assert {path for path in files() - before if path.name != "__pycache__"} == set()


class TestWheel:
    """What works without a clone, in an empty folder."""

    def test_ways_are_compared(self, run: Run, tmp_path: Path) -> None:
        shutil.copy(ROOT / "data/clusters/home.toml", tmp_path)
        ended = run("workbench", "compare", "lenet5", "--cluster", "home.toml")
        assert "samples sent once" in ended.stdout, ended.stderr

    def test_every_explorer_draws_its_chart(self, run: Run) -> None:
        code = "; ".join(map(EXPLORER.format, TITLES))
        ended = run("python", "-c", f"import workbench; print(workbench.__file__); {code}")
        assert ended.returncode == 0, ended.stderr
        assert str(ROOT) not in ended.stdout

    def test_a_notebook_is_reproduced(self, run: Run, tmp_path: Path) -> None:
        ended = run("workbench", "reproduce", "--scale", "smoke", "08_measured_elsewhere")
        assert ended.returncode == 0, ended.stdout + ended.stderr
        kept = tmp_path / "data/results/08_measured_elsewhere"
        assert (kept / "08_measured_elsewhere.ipynb").is_file()
        assert (kept / "manifest.json").is_file()

    def test_recording_into_the_package_is_refused_in_one_line(self, run: Run) -> None:
        ended = run("workbench", "record", "dynacomm", "table2", "--force")
        assert ended.returncode == 2
        (line,) = ended.stderr.splitlines()
        assert "is part of the installed package: name another folder" in line


class TestCitation:
    CITATION: dict[str, Any] = yaml.safe_load((ROOT / "CITATION.cff").read_text())

    def test_names_this_version(self) -> None:
        assert str(self.CITATION["version"]) == PYPROJECT["project"]["version"]
        assert self.CITATION["license"] == PYPROJECT["project"]["license"]
        assert self.CITATION["cff-version"] == "1.2.0"
        log = (ROOT / "CHANGELOG.md").read_text()
        assert f"## {self.CITATION['version']} " in log
        assert self.CITATION["date-released"]

    def test_cites_the_paper_of_each_system(self) -> None:
        references = self.CITATION["references"]
        names = ["DynaComm", "HierTrain", "Gossip", "DLion", "B5G"]
        assert [
            name for name, one in zip(names, references, strict=True) if name in one["title"]
        ] == names
        for one in references:
            assert one["authors"]
            assert re.fullmatch(r"10\.1\d{3}/[\w.-]+", one["doi"])
            assert one["type"] in ("article", "conference-paper")


def test_the_licence_is_apache_2() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License\n                           Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


HEAVY = "altair ipywidgets jupyter_client nbclient nbformat papermill polars scipy torch vl_convert"
COMMAND = "from workbench.cli import app; app({}, standalone_mode=False)"
LIGHT = {
    COMMAND.format(["--help"]): f"{HEAVY} numpy",
    COMMAND.format(["reproduce", "--help"]): f"{HEAVY} numpy",
    "from workbench.zoo import MODELS; MODELS['vgg19']": "torch polars numpy",
    "import workbench.datasets, workbench.training": "torch sklearn pooch requests scipy",
    "import workbench.figures, workbench.widgets": "altair IPython ipywidgets polars torch "
    "vl_convert",
    "import workbench.reproduction.scorecard": "papermill torch altair ipywidgets",
    # DLion's explorer runs the programs of workers dry.
    "; ".join(EXPLORER.format(name) for name in TITLES if name != "dlion"): "torch",
}
"""Code that runs without packages."""


@pytest.mark.parametrize("code", LIGHT)
def test_what_is_not_needed_is_not_loaded(code: str) -> None:
    shown = f"{code}; import sys; print(*sys.modules, file=sys.stderr)"
    command = [sys.executable, "-c", shown]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stderr.split()
    assert "workbench" in loaded
    assert set(LIGHT[code].split()).isdisjoint(loaded)


def test_importing_the_workbench_imports_nothing_but_the_standard_library() -> None:
    code = (
        "import sys; before = set(sys.modules); import workbench;"
        "found = {name.partition('.')[0] for name in set(sys.modules) - before};"
        "print(found - sys.stdlib_module_names)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "{'workbench'}\n"
