"""The command answers at once, refuses in one line, and hides no fault."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import workbench
from tests.reproduction.helpers import write_notebook
from tests.reproduction.test_results import store
from workbench import cli, profiles
from workbench.datasets import load as load_data
from workbench.memory import report
from workbench.profiles import ModelProfile
from workbench.reproduction import systems
from workbench.utils.parallel import as_finished
from workbench.zoo import MODELS


def workbench_command(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(cli.app, list(arguments))


def refused(*arguments: str) -> str:
    """Return what the command says when it refuses: on standard error, no traceback, status 2."""
    result = workbench_command(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("workbench: ")
    assert "Traceback" not in result.stderr
    return result.stderr


def test_installed_command_prints_help_and_version() -> None:
    command = Path(sys.executable).parent / "workbench"
    helped = subprocess.run([command, "--help"], capture_output=True, text=True, check=True)
    commands = ("reproduce", "sweep", "scorecard", "figures", "profile", "memory", "models")
    for name in commands:
        assert f" {name} " in helped.stdout
    told = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert told.stdout == f"workbench {workbench.__version__}\n"


# --- Refusals and faults -------------------------------------------------------------------------


@pytest.fixture
def notebooks(tmp_path: Path) -> Path:
    """A folder with one notebook, which does not run in most of these tests."""
    cell = "batch_size: int = 32\nworkers: int = 4\nbandwidth_mbps: float = 1000.0"
    write_notebook(tmp_path / "01_dynacomm.ipynb", "assert batch_size != 16", parameters=cell)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("reproduce --notebooks=~/x", "no notebooks in HOME/x"),
        ("scorecard --results=~/x", "--results HOME/x: there is no such folder"),
        ("profile lenet5 --save=~/x/a.parquet", "--save HOME/x/a.parquet: there is no folder"),
        ("profile ~/x.py:Net --inputs 1", "there is no file HOME/x.py"),
        ("share dynacomm --output=~/x/a.html", "-o HOME/x/a.html: there is no folder HOME/x"),
        ("compare lenet5 --cluster=~/x.toml", "HOME/x.toml: cannot be read"),
        ("sweep ~/own.ipynb -p seed=1", "own.ipynb keeps no results"),
    ],
)
def test_tilde_in_a_path_is_the_home_folder(
    line: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write_notebook(tmp_path / "own.ipynb", parameters="seed: int = 1")
    assert message.replace("HOME", str(tmp_path)) in refused(*line.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-p", "workers"], "-p 'workers': write it as name=value"),
        (["-p", "=3"], "-p '=3': write it as name=value"),
        (["-p", "workers=4\n"], r"-p 'workers=4\n': write it as name=value"),
        (["-p", "model=\x1b[2J"], r"-p 'model=\x1b[2J': write it as name=value"),
        (["-p", "workers=2", "-p", "workers=3"], "'workers' is given twice: 2 and 3"),
        (["--scale", "smok"], "Did you mean 'smoke'?"),
    ],
)
def test_reproduce_refuses_before_anything_runs(
    notebooks: Path, arguments: list[str], message: str
) -> None:
    output = notebooks / "out"
    said = refused("reproduce", "--notebooks", str(notebooks), "--output", str(output), *arguments)
    assert message in said
    assert not output.exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("figures --results {empty}/nowhere", "no such folder"),
        ("figures dynacom --results {empty}", "Did you mean 'dynacomm'?"),
        ("scorecard --system dynacom --results {empty}", "Did you mean 'dynacomm'"),
        ("scorecard --results {empty} --picture card.png", "give a file that ends in .svg"),
        ("profile resnet51", "Did you mean 'resnet50'?"),
        ("profile nofile.py:Foo", "there is no file nofile.py"),
        ("profile lenet5 --batch-size 0", "from 1 to 65536"),
        ("profile lenet5 --by grapf", "Did you mean 'graph'?"),
        ("profile lenet5 --device tpu", "device is 'tpu'; 'cpu' and 'cuda' can be measured"),
        ("profile lenet5 --save x.csv", "--save x.csv: give a file that ends in .parquet"),
        ("profile lenet5 --save nowhere/x.parquet", "there is no folder"),
        ("profile lenet5 --save {empty}", "this is a folder"),
        ("memory lenet5 --planner peble", "Did you mean 'pebble'?"),
        ("profile lenet5 --batch-size 1,0", "from 1 to 65536"),
        ("profile lenet5 --inputs a=int64[3],int64[3]", "give every input a name of its own"),
        (
            "memory lenet5 --budget 0%",
            "the budget '0%' is no share of what it takes; give 1% to 100%",
        ),
        ("memory lenet5 --optimizer adan", "Did you mean 'adam'?"),
        ("memory lenet5 --optimizer adamw", "only training has its state; add --training"),
        ("memory lenet5 --budget 64XB", "'64XB' is no budget; give bytes, as in 64MB"),
        ("profile lenet5 --inputs 99999999999999999999", "PyTorch has no tensor float32[9999"),
        ("memory lenet5 --inputs 3,32,32", "does not fit"),
        ("compare lenet5 --cluster x.toml --train --seeds 0", "--seeds is 0; it must be a whole"),
        ("compare lenet5 --cluster x.toml --seeds 0", "--seeds counts with --train alone"),
    ],
)
def test_a_command_refuses(line: str, message: str, tmp_path: Path) -> None:
    (empty := tmp_path / "empty").mkdir()
    assert message in refused(*line.format(empty=empty).split())


@pytest.mark.parametrize(
    "line",
    [
        "profile lenet5 --save /proc/x.parquet",
        "share dynacomm -o /proc/x.html",
        "share --all -o /proc/x",
        "scorecard --results {empty} --picture /proc/x.svg",
        "figures --results {stored} --output /proc/x",
        "figures --results {stored} --output {stored}/01_toy/manifest.json",
        "reproduce 01 --scale smoke --output /proc/x",
        "reproduce 01 --scale smoke --output {empty} --figures /proc/x",
        "sweep 01 -p seed=1,2 --output /proc/x",
        "record dlion fig8 --scale smoke --output /proc/x",
    ],
)
def test_output_that_cannot_be_written_is_refused_in_one_line(line: str, tmp_path: Path) -> None:
    (empty := tmp_path / "empty").mkdir()
    store(stored := tmp_path / "stored")
    said = refused(*line.format(empty=empty, stored=stored).split())
    assert "/proc" in said or "manifest.json: there is a file in its place" in said
    assert "None" not in said
    assert not list(empty.iterdir())


def test_a_disk_that_is_full_after_the_work_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").symlink_to("/dev/full")
    result = workbench_command("profile", "lenet5", "--save", str(tmp_path / "x.parquet"))
    assert result.exit_code == 2
    assert result.stderr == f"workbench: {tmp_path / 'x.parquet'}: No space left on device\n"


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
    ids=["ascii", "POSIX"],
)
def test_output_that_is_not_utf8_has_all_numbers(environment: dict[str, str]) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "workbench.cli", "models"],
        env=os.environ | environment,
        capture_output=True,
        check=True,
    )
    for model in MODELS.values():
        assert f"| {model.name} ".encode() in run.stdout
        assert f" {model.parameters:,} ".encode() in run.stdout
    assert run.stderr == b""


@pytest.mark.parametrize("asked", ["models", "--help"])
def test_a_full_standard_output_is_one_line(asked: str) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "workbench.cli", *asked.split()]
        run = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert run.stderr == b"workbench: standard output: No space left on device\n"
    assert run.returncode == 2


@pytest.mark.parametrize("into", [">&-", "| true"])
def test_a_closed_standard_output_is_no_traceback(into: str) -> None:
    command = f"'{sys.executable}' -m workbench.cli models {into}"
    run = subprocess.run(["bash", "-c", command], capture_output=True, check=False)
    assert run.stderr == b""


def raise_outside() -> None:
    raise ValueError("from outside the package")


def convert_in_another_process() -> None:
    list(as_finished(int, [("seven",), ("eight",)], 2))


def test_a_refusal_in_another_process_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [("digit",), ("digit",)]
    monkeypatch.setattr(cli, "shape_as_text", lambda shape: list(as_finished(load_data, calls, 2)))
    assert "Did you mean 'digits'?" in refused("models")


@pytest.mark.parametrize("fault", [raise_outside, convert_in_another_process])
def test_a_fault_is_not_taken_for_a_refusal(fault: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "shape_as_text", lambda shape: fault())  # type: ignore[operator]
    result = workbench_command("models")
    assert isinstance(result.exception, ValueError)
    assert result.exit_code == 1
    assert "workbench:" not in result.stderr


# --- Reproduce, figures, scorecard ---------------------------------------------------------------


def test_reproduce_passes_its_exit_status_on(notebooks: Path) -> None:
    where = ("--notebooks", str(notebooks), "--output", str(notebooks / "out"))
    result = workbench_command("reproduce", "01", "-p", "batch_size=16", *where)
    assert result.exit_code == 1
    assert "AssertionError" in result.stdout
    assert workbench_command("reproduce", "01", "-p", "batch_size=17", *where).exit_code == 0
    assert (notebooks / "out" / "01_dynacomm" / "manifest.json").is_file()


def test_sweep_passes_its_exit_status_on(notebooks: Path) -> None:
    cell = "batch_size: int = 32\noutput: str = ''"
    path = write_notebook(notebooks / "02_x.ipynb", "assert batch_size != 16", parameters=cell)
    where = (str(path), "--output", str(notebooks / "out"), "--processes", "1")
    result = workbench_command("sweep", *where, "-p", "batch_size=15..16")
    assert result.exit_code == 1
    assert "batch_size=16: failed in cell 2 of 2" in result.stdout
    assert workbench_command("sweep", *where, "-p", "batch_size=15").exit_code == 0
    assert (notebooks / "out" / "points.csv").read_text().startswith("batch_size,status,seconds")
    assert "give values as in -p seed=1..5" in refused("sweep", *where)
    assert "'batch_size' is given twice" in refused(
        "sweep", *where, "-p", "batch_size=1", "-p", "batch_size=2"
    )


def test_scorecard_is_a_picture_too(tmp_path: Path) -> None:
    path = tmp_path / "figures" / "scorecard.svg"
    where = ("--results", str(tmp_path), "--picture", str(path))
    result = workbench_command("scorecard", "--system", "olpb", *where)
    assert result.exit_code == 0, result.output
    assert "claims of the papers are met" in path.read_text()


@pytest.mark.parametrize("name", ["dynacomm", "01_dynacomm", "01", "notebooks/01_dynacomm.ipynb"])
def test_a_system_has_the_names_of_its_notebook(name: str, tmp_path: Path) -> None:
    where = ("--results", str(tmp_path))
    card = workbench_command("scorecard", "--system", name, "--format", "json", *where)
    assert {row["system"] for row in json.loads(card.stdout)} == {"dynacomm"}
    listed = workbench_command("planners", name).stdout
    assert re.findall(r"(?m)^\w+(?=:)", listed) == ["dynacomm"]
    assert "unknown experiment 'fig5'" in refused("record", name, "fig5")
    store(tmp_path, "01_dynacomm")
    assert (
        "dynacomm_fig1.svg"
        in workbench_command("figures", name, *where, "--output", str(tmp_path / "out")).stdout
    )


# --- Profiles and lists --------------------------------------------------------------------------


def test_profile_prints_layers_units_and_totals(tmp_path: Path) -> None:
    saved = tmp_path / "lenet.parquet"
    result = workbench_command("profile", "lenet5", "--batch-size", "32", "--save", str(saved))
    assert result.exit_code == 0, result.output
    assert "lenet5: 5 layers, a batch of 32 of 1×28×28" in result.stdout
    assert "MB" in result.stdout
    assert "GFLOP" in result.stdout
    expected = profiles.profile_model("lenet5")
    assert ModelProfile.load(saved) == expected
    totals = next(line.split() for line in result.stdout.splitlines() if "total" in line)
    assert totals[1:3] == ["10", "0.247"]  # 61,706 parameters of 4 bytes in 10 tensors
    assert float(totals[4]) == pytest.approx(expected.forward_flops * 32 / 1e9, rel=0.02)


def test_profile_of_ones_own_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_models.py").write_text(
        "import torch\n"
        "def net():\n"
        "    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(),\n"
        "                               torch.nn.Linear(144, 2))\n"
        "def tuned():\n"
        "    module = net()\n"
        "    module[2].requires_grad_(False)\n"
        "    return module\n"
        "class Choosy(torch.nn.Linear):\n"
        "    def __init__(self):\n"
        "        super().__init__(192, 2)\n"
        "    def forward(self, x):\n"
        "        return super().forward(x.flatten(1)) if x.sum() > 0 else x\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    shape = ("--inputs", "3,8,8")
    result = workbench_command("profile", "my_models:net", *shape)
    assert result.exit_code == 0, result.output
    assert "2 layers, one sample of 3×8×8" in result.stdout

    result = workbench_command("profile", "my_models.py:tuned", *shape)
    assert "a further 1.16 kB of parameters are frozen, and never sent" in result.stdout

    def own(name: str, *arguments: str) -> str:
        return refused("profile", f"my_models.py:{name}", *arguments)

    said = own("Choosy", *shape)
    assert re.search(r"Choosy cannot be traced: .*my_models.py, line \d+", said)
    assert said.endswith("profile it module by module, which runs it: --by modules\n")
    said = refused("memory", "my_models.py:Choosy", *shape)
    assert said.startswith("workbench: Choosy cannot be traced: ")
    assert said.endswith("its memory cannot be planned before its operators are known\n")
    assert "as in --inputs 3,224,224" in own("net")
    assert "--inputs 3,x,8: give a type and a shape" in own("net", "--inputs", "3,x,8")


def test_memory_prints_every_planner_beside_the_bound() -> None:
    result = workbench_command("memory", "resnet20_cifar", "--batch-size", "8", "--training")
    assert result.exit_code == 0, result.output
    assert "resnet20_cifar: a step of training, a batch of 8 of 3×32×32" in result.stdout
    rows = {line.split()[0]: line.split() for line in result.stdout.splitlines() if line.split()}
    for name in ("none", "parent", "pebble", "greedy_by_size", "best_fit", "workbench"):
        assert float(rows[name][3]) >= 1
    assert float(rows["none"][3]) > 2
    assert "trained copy 2.16 MB" in " ".join(result.stdout.split())  # the module's and the arena's
    assert re.fullmatch(r"needs [\d.]+ MB", result.stdout.splitlines()[-1])


def test_several_batch_sizes_give_a_row_each() -> None:
    result = workbench_command("profile", "gpt_tiny", "--batch-size", "1,8")
    assert result.exit_code == 0, result.output
    assert "gpt_tiny: 9 layers, samples of 32" in result.stdout
    rows = [
        line.split() for line in result.stdout.splitlines() if line.split()[:1] in (["1"], ["8"])
    ]
    assert [row[0] for row in rows] == ["1", "8"]
    assert float(rows[1][1]) == pytest.approx(8 * float(rows[0][1]), rel=0.01)
    asked = ("memory", "lenet5", "--training", "--planner", "workbench", "--budget", "2MB")
    result = workbench_command(*asked, "--batch-size", "8,512", "--optimizer", "adamw")
    assert result.exit_code == 0, result.output
    small, large = (
        next(line for line in result.stdout.splitlines() if line.startswith(f"  {size:>7}"))
        for size in (8, 512)
    )
    assert re.search(r"within 2 MB of 2\.\d+ MB: nothing recomputed", small)
    assert "a budget of 2 MB cannot be met: at least" in large
    assert float(large.split()[1]) > 10 * float(small.split()[1])
    said = refused("profile", "lenet5", "--measure", "--batch-size", "1,2", "--save", "x.parquet")
    assert "it takes the times of one batch size" in said


PLANNER = "greedy_by_size"


def test_a_budget_may_be_a_share_and_adamw_keeps_what_adam_does() -> None:
    asked = ("memory", "resnet20_cifar", "--batch-size", "64", "--training", "--planner", PLANNER)
    outputs = [
        workbench_command(*asked, "--optimizer", name, "--budget", "75%").stdout
        for name in ("adam", "adamw")
    ]
    needed = [float(output.split()[-2]) for output in outputs]
    assert needed[0] == needed[1]
    survey = report.survey(
        "resnet20_cifar", batch_size=64, training=True, planner=PLANNER, optimizer="adam"
    )
    whole = survey.whole_bytes
    assert 0.6 * whole < needed[0] * 1e6 <= 0.75 * whole * 1.005


def test_memory_within_a_budget() -> None:
    asked = ("memory", "resnet20_cifar", "--batch-size", "8", "--training", "--planner", PLANNER)
    result = workbench_command(*asked, "--budget", "0.014 GB")
    assert result.exit_code == 0, result.output
    assert "workbench" not in result.stdout
    assert re.search(
        r"within 14 MB of [\d.]+ MB: recomputing \d+ operators takes \d+ % to \d+ % longer",
        " ".join(result.stdout.split()),
    )
    result = workbench_command(*asked, "--budget", "1MiB")
    assert result.exit_code == 2
    assert "plain execution" in result.stdout  # the table
    assert re.search(r"1.05 MB cannot be met: at least .* MB with recomputation", result.stderr)


def test_memory_of_ones_own_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine[b].py").write_text("import torch\nkey = torch.nn.Linear(8, 2)\n")
    monkeypatch.chdir(tmp_path)
    result = workbench_command("memory", "mine[b].py:key", "--inputs", "8")
    assert result.exit_code == 0, result.output
    # The name is no markup: neither a style nor the picture of a key.
    assert "mine[b].py:key: inference, one sample of 8, 1 operator " in result.stdout
    assert "parameters 72 bytes" in " ".join(result.stdout.split())


def test_help_shows_defaults() -> None:
    assert "[default: all]" in workbench_command("memory", "--help").stdout


def test_models_are_listed() -> None:
    listed = workbench_command("models").stdout
    assert "61,706" in listed
    assert "3×224×224" in listed
    assert "int64[32]" in listed


def test_every_algorithm_of_every_system_is_listed() -> None:
    listed = workbench_command("planners").stdout
    for system, registries in systems.ALGORITHMS.items():
        for kind, registry in registries.items():
            assert f"{system}: {kind}\n" in listed
            for name in registry:
                about = re.search(rf"(?m)^  {name} +(.+)$", listed)
                assert about, name
                assert "worker's part" not in about[1]
                assert ", then " in about[1] or len(about[1].split()) > 5, name
    for name in ("mg_wfbp", "jointdnn_plus", "accuracy_aware", "svd_kmeans", "reassign", "ad_psgd"):
        assert f"  {name} " in listed
