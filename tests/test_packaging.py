"""What a fresh clone is installed from: the requirements agree, and a half installation is seen."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.scripts import script
from workbench.systems import SYSTEMS
from workbench.utils.files import ROOT

CONDA_NAMES = {"torch": "pytorch", "jupyter-client": "jupyter_client", "ray": "ray-core"}

PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
CONSTRAINTS = (ROOT / "constraints.txt").read_text()
LOCK_TEXT = (ROOT / "requirements.lock").read_text()
CONDA: dict[str, Any] = yaml.safe_load((ROOT / "environment.yml").read_text())


def wanted() -> list[Requirement]:
    return [Requirement(line) for line in script("lock").requirements(PYPROJECT)]


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

    def test_the_lock_leaves_out_build_labels_and_gpu_libraries(self) -> None:
        text = script("lock").constraints_text(
            {"torch": "2.13.0+cpu", "nvidia-nccl": "2", "triton": "3", "numpy": "2.4"}
        )
        pins = [line for line in text.splitlines() if not line.startswith("#")]
        assert pins == ["numpy==2.4", "torch==2.13.0"]

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
    """The environment's states, on a clone whose installation is a stand-in."""

    @pytest.fixture
    def clone(self, tmp_path: Path) -> Path:
        for name in ("requirements.lock", "constraints.txt", "pyproject.toml"):
            shutil.copy(ROOT / name, tmp_path)
        return tmp_path

    @pytest.fixture
    def done(self) -> list[str]:
        return []

    @pytest.fixture
    def set_up(self, clone: Path, done: list[str]) -> Any:
        module = script("set_up")

        def create(venv: Path) -> None:
            done.append("create")
            (venv / "bin").mkdir()
            (venv / "bin/python").symlink_to(sys.executable)

        def install(root: Path, venv: Path) -> None:
            done.append("install")
            assert (root, venv) == (clone, clone / ".venv")
            assert not module.is_whole(root)

        def run(install: Any = install) -> None:
            module.set_up(clone, create, install)

        run.module = module  # type: ignore[attr-defined]
        return run

    def test_installs_once(self, set_up: Any, done: list[str]) -> None:
        set_up()
        set_up()
        assert done == ["create", "install"]

    @pytest.mark.parametrize("name", ["requirements.lock", "constraints.txt", "pyproject.toml"])
    def test_installs_again_into_the_same_venv_when_requirements_change(
        self, name: str, set_up: Any, done: list[str], clone: Path
    ) -> None:
        set_up()
        (clone / name).write_text((clone / name).read_text() + "\n")
        set_up()
        assert done == ["create", "install", "install"]

    def test_installs_again_where_the_folder_was_moved(
        self, set_up: Any, clone: Path, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        set_up()
        moved = tmp_path_factory.mktemp("moved") / "clone"
        clone.rename(moved)
        assert not set_up.module.is_whole(moved)

    @pytest.mark.parametrize("how", [KeyboardInterrupt, RuntimeError])
    def test_starts_over_after_an_interrupted_installation(
        self, how: type[BaseException], set_up: Any, done: list[str], clone: Path
    ) -> None:
        def broken(root: Path, venv: Path) -> None:
            (venv / "half").touch()
            raise how

        with pytest.raises(how):
            set_up(broken)
        assert not set_up.module.is_whole(clone)
        set_up()
        assert done == ["create", "create", "install"]
        assert not (clone / ".venv/half").exists()
        assert set_up.module.is_whole(clone)

    @pytest.mark.parametrize("killed", [True, False])
    def test_starts_over_after_a_killed_update_and_where_its_python_is_gone(
        self, killed: bool, set_up: Any, done: list[str], clone: Path
    ) -> None:
        def kill(root: Path, venv: Path) -> None:
            raise KeyboardInterrupt

        set_up()
        (clone / "requirements.lock").write_text("six==1.17.0\n")
        if killed:
            with pytest.raises(KeyboardInterrupt):
                set_up(kill)
        else:
            (clone / ".venv/bin/python").unlink()
        set_up()
        assert done == ["create", "install", "create", "install"]

    def test_adopts_a_venv_made_by_hand(self, set_up: Any, done: list[str], clone: Path) -> None:
        (clone / ".venv/bin").mkdir(parents=True)
        (clone / ".venv/bin/python").symlink_to(sys.executable)
        set_up()
        assert done == ["install"]

    def test_says_which_python_or_package_is_lacking(self) -> None:
        module = script("set_up")
        with pytest.raises(module.SetUpError, match=r"Python 3\.9\.2; the workbench needs 3\.11"):
            module.check_python((3, 9, 2), True)
        with pytest.raises(module.SetUpError, match="apt-get install python3-venv"):
            module.check_python((3, 11, 2), False)
        module.check_python((3, 12, 0), True)

    def test_shows_pips_own_words_when_it_fails(self, capfd: pytest.CaptureFixture[str]) -> None:
        module = script("set_up")
        command = [sys.executable, "-c", "print('no such version'); raise SystemExit(1)"]
        with pytest.raises(module.SetUpError, match="pip could not install"):
            module.run_pip(command, Path(), 1)
        assert "no such version" in capfd.readouterr().err


class TestCommands:
    @staticmethod
    def make(*arguments: str) -> subprocess.CompletedProcess[str]:
        # These tests may themselves be run by make, whose options are not meant for this one.
        outer = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "ARGS")
        return subprocess.run(
            ["make", "-s", "-C", ROOT, *arguments],
            env={name: value for name, value in os.environ.items() if name not in outer},
            capture_output=True,
            text=True,
            check=False,
        )

    def test_help_comes_first_and_lists_every_command(self) -> None:
        text = self.make().stdout
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
        workbench = tmp_path / "workbench"
        workbench.write_text(f'#!/bin/sh\necho "ran $*"\n[ $1 = scorecard ] || exit {status}\n')
        workbench.chmod(0o755)
        run = self.make("reproduce", f"BIN={tmp_path}", "PYTHON=true", *arguments)
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


class TestBrowser:
    """How `make test` gets its Chromium, on a machine whose tools are stand-ins."""

    @pytest.fixture
    def machine(self, tmp_path: Path) -> Path:
        (tmp_path / "scripts").mkdir()
        shutil.copy(ROOT / "scripts/chromium.sh", tmp_path / "scripts")
        for tool in ("bash", "dirname", "timeout", "env", "cp", "chmod"):
            found = shutil.which(tool)
            assert found is not None
            self.link(tmp_path / "bin" / tool, Path(found))
        self.stub(tmp_path / "bin/id", "echo 0")
        self.stub(tmp_path / "chromium", "echo Chromium 1")
        self.stub(tmp_path / ".venv/bin/python", f"echo {tmp_path}/of_playwright")
        self.stub(tmp_path / "bin/apt-get", "exit 1")
        self.stub(tmp_path / ".venv/bin/playwright", "exit 1")
        return tmp_path

    @staticmethod
    def link(path: Path, to: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(to)

    @staticmethod
    def stub(path: Path, line: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/bash\n{line}\n")
        path.chmod(0o755)

    @staticmethod
    def run(machine: Path, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [machine / "bin/bash", machine / "scripts/chromium.sh"],
            env={"PATH": str(machine / "bin"), **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    @pytest.mark.parametrize("name", ["chromium", "chromium-browser", "google-chrome"])
    def test_one_on_the_path_is_taken(self, name: str, machine: Path) -> None:
        self.link(machine / "bin" / name, machine / "chromium")
        assert self.run(machine).stdout == f"{machine}/bin/{name}\n"

    def test_one_that_does_not_run_is_passed_over(self, machine: Path) -> None:
        self.stub(machine / "bin/chromium", "echo install the snap; exit 1")
        self.link(machine / "bin/google-chrome", machine / "chromium")
        assert self.run(machine).stdout == f"{machine}/bin/google-chrome\n"

    def test_the_named_one_is_taken_and_must_run(self, machine: Path) -> None:
        named = str(machine / "chromium")
        assert self.run(machine, WORKBENCH_CHROMIUM=named).stdout == f"{named}\n"
        run = self.run(machine, WORKBENCH_CHROMIUM="/nowhere/chromium")
        assert (run.returncode, run.stdout) == (1, "")
        assert "WORKBENCH_CHROMIUM=/nowhere/chromium does not run" in run.stderr

    def test_apt_installs_one(self, machine: Path) -> None:
        self.stub(machine / "bin/apt-get", f"cp {machine}/chromium {machine}/bin/chromium")
        run = self.run(machine)
        assert run.stdout == f"{machine}/bin/chromium\n"
        assert "installing Debian's with apt-get" in run.stderr

    def test_playwright_installs_one_where_apt_cannot(self, machine: Path) -> None:
        line = f'[ "$*" = "install chromium" ] && cp {machine}/chromium {machine}/of_playwright'
        self.stub(machine / ".venv/bin/playwright", line)
        run = self.run(machine)
        assert run.stdout == f"{machine}/of_playwright\n"
        assert "apt-get could not install it" in run.stderr

    def test_with_none_to_be_had_it_fails_and_says_what_to_do(self, machine: Path) -> None:
        run = self.run(machine)
        assert (run.returncode, run.stdout) == (1, "")
        assert "the browser tests need a Chromium" in run.stderr
        assert "apt-get install chromium" in run.stderr
        assert "WORKBENCH_CHROMIUM=/path make test" in run.stderr


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
EXPLORER = "from workbench.{} import explorer; explorer.draw(explorer.Setting())"
LIGHT = {
    COMMAND.format(["--help"]): f"{HEAVY} numpy",
    COMMAND.format(["reproduce", "--help"]): f"{HEAVY} numpy",
    "from workbench.zoo import MODELS; MODELS['vgg19']": "torch polars numpy",
    "import workbench.datasets, workbench.training": "torch sklearn pooch requests scipy",
    "import workbench.figures, workbench.widgets": "altair IPython ipywidgets polars torch "
    "vl_convert",
    "import workbench.scorecard": "workbench.reproduce papermill torch altair ipywidgets",
    "; ".join(map(EXPLORER.format, SYSTEMS)): "torch",
}
"""What runs without which packages."""


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
