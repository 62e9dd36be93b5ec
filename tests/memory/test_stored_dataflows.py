"""Stored dataflows: what tracing gives, at any batch size, no longer used once the code changed."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.long import usually
from workbench.memory import stored_dataflows as stored
from workbench.memory.dataflow import Dataflow
from workbench.memory.planning import plan_memory
from workbench.memory.stored_dataflows import stored_dataflow, traced_dataflow
from workbench.names import UnknownNameError
from workbench.paths import ROOT
from workbench.zoo import MODELS

WRITE_ANEW = "run .venv/bin/python scripts/trace_zoo.py"
FEW = ("lenet5", "alexnet_tiny", "squeezenet_cifar", "resnet20_cifar")


def same(one: Dataflow, other: Dataflow) -> bool:
    numbers = one.sizes.tolist() == other.sizes.tolist()
    return numbers and (one.steps, one.kept, one.held) == (other.steps, other.kept, other.held)


def test_every_model_is_stored_by_the_code_as_it_is() -> None:
    with zipfile.ZipFile(stored.PATH) as file:
        assert file.read("computed by").decode() == stored.fingerprint(), WRITE_ANEW
        names = [name for name in file.namelist() if name.endswith("from 1")]
    wanted = [
        f"{model}, {phase}, {graph}, from 1"
        for model in MODELS
        for phase in ("inference", "training")
        for graph in ("as traced", "optimised")
    ]
    assert names == wanted, WRITE_ANEW
    assert stored.PATH.stat().st_size < 2_000_000


@pytest.mark.parametrize("optimised", [False, True])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", usually(("lenet5", "squeezenet_cifar"), FEW))
def test_what_is_stored_is_what_tracing_gives(name: str, training: bool, optimised: bool) -> None:
    for batch_size in (1, 7):
        kept = stored_dataflow(name, batch_size, training, optimised)
        assert kept.graph is None
        assert same(kept, traced_dataflow(name, batch_size, training, optimised))


def test_a_model_of_other_operators_for_one_sample() -> None:
    one, several = (stored_dataflow("mask_rcnn", size) for size in (1, 2))
    assert len(one.steps) != len(several.steps)
    assert one.held_bytes("weight") == several.held_bytes("weight")


def test_plans_of_what_is_stored() -> None:
    flow = stored_dataflow("inception_v3", 16, training=True)
    plan = plan_memory(flow, order="best_first", time_limit_s=1e-3)
    assert plan.total_bytes <= 1.02 * plan.bound_bytes
    assert set(plan.table["kind"]) == {"activation", "gradient", "output"}
    assert flow.held_bytes("weight") == 4 * MODELS["inception_v3"].parameters


def test_storing_again_gives_the_same_lines(tmp_path: Path) -> None:
    forms = [stored.forms("lenet5", trains) for trains in (False, True)]
    for path in (tmp_path / "one.zip", tmp_path / "other.zip"):
        stored.store(forms, path)
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "other.zip").read_bytes()
    with zipfile.ZipFile(stored.PATH) as file:
        assert all(file.read(name).decode() == text for one in forms for name, text in one.items())


def test_what_other_code_has_stored_is_traced_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = stored_dataflow("lenet5", 3)
    for name in ("other.zip", "not there.zip"):
        with monkeypatch.context() as patch:
            patch.setattr(stored, "fingerprint", lambda: "another")
            if name == "other.zip":
                stored.store([], tmp_path / name)
        monkeypatch.setattr(stored, "PATH", tmp_path / name)
        found = stored_dataflow("lenet5", 3)
        assert found.graph is not None
        assert same(found, wanted)


def test_a_damaged_file_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "zoo.zip"
    path.write_bytes(stored.PATH.read_bytes()[:-900])
    monkeypatch.setattr(stored, "PATH", path)
    with pytest.raises(ValueError, match=r"zoo\.zip is damaged.*scripts/trace_zoo\.py"):
        stored_dataflow("lenet5")


def test_the_fingerprint_follows_the_zoo_the_tracing_and_the_optimiser(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for room in ("zoo", "graphs", "memory"):
        shutil.copytree(ROOT / "workbench" / room, tmp_path / room)
    monkeypatch.setattr(stored, "_PACKAGE", tmp_path)
    prints = {stored.fingerprint()}
    files = ("zoo/resnet.py", "graphs/tracing.py", "memory/dataflow.py")
    for name in (*files, "graphs/optimiser/fusion.py"):
        path = tmp_path / name
        path.write_text(path.read_text() + "# changed")
        prints.add(stored.fingerprint())
    assert len(prints) == 5
    (tmp_path / "memory/pebble.py").write_text("")
    assert stored.fingerprint() in prints


def test_bad_input() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'resnet50'"):
        stored_dataflow("resnet51")
    with pytest.raises(ValueError, match="batch_size is 0"):
        stored_dataflow("lenet5", 0)


def test_plans_need_no_pytorch() -> None:
    code = (
        "import sys; from workbench.memory import plan_memory;"
        "from workbench.memory.stored_dataflows import stored_dataflow;"
        "plan_memory(stored_dataflow('resnet18', 8, True), 'pebble');"
        "print('torch' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"
