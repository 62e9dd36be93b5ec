"""Stored costs of backward passes: what computing gives, no longer used once the code changed."""

from __future__ import annotations

import itertools
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from workbench.names import UnknownNameError
from workbench.olpb.algorithms.schedules import ALGORITHMS
from workbench.olpb.costs import stored_passes as stored
from workbench.olpb.costs.arithmetic import as_arithmetic_costs, network_elements
from workbench.olpb.costs.backward import Group, plan, subtasks
from workbench.olpb.costs.stored_passes import LEVELS, NODES, stored_groups, stored_work
from workbench.paths import ROOT
from workbench.zoo import MODELS

WRITE_ANEW = "run .venv/bin/python scripts/trace_zoo.py backward"
FEW = ("lenet5", "squeezenet_cifar", "resnet20_cifar")
LAYERS = [("operator", level) for level in (1, 2, LEVELS)] + [("layer", 1)]


def nameless(groups: tuple[Group, ...]) -> list[Group]:
    return [replace(one, names=()) for one in groups]


def is_stored(model: str, unit: str, level: int) -> bool:
    kept = stored._elements(stored.PATH, model, unit, level)
    return kept is not None


def test_every_model_is_stored_by_the_code_as_it_is() -> None:
    with zipfile.ZipFile(stored.PATH) as file:
        assert file.read("computed by").decode() == stored.fingerprint(), WRITE_ANEW
        models = [name.partition(",")[0] for name in file.namelist()[1:]]
    assert list(dict.fromkeys(models)) == list(MODELS), WRITE_ANEW
    assert len(models) == 2 * (LEVELS + 1) * len(MODELS), WRITE_ANEW
    assert stored.PATH.stat().st_size < 2_000_000


@pytest.mark.parametrize("model", FEW)
def test_stored_groups_are_what_counting_gives(model: str) -> None:
    more = {"operator_flops": 3.5, "number_flops": 0.25}
    for unit, level in [("operator", 1), ("operator", LEVELS), ("matrix_layer", 1)]:
        counted = subtasks(model, 7, unit, level, **more)  # type: ignore[arg-type]
        assert nameless(stored_groups(model, 7, unit, level, **more)) == nameless(counted)


@pytest.mark.parametrize("model", FEW)
def test_stored_work_is_what_arithmetic_gives(model: str) -> None:
    for unit, level in LAYERS:
        assert is_stored(model, unit, level)
        elements = network_elements(model, 1, unit, level)
        for nodes, scan in itertools.product((1, 2, 3, 13, 32, NODES), ALGORITHMS):
            planned = plan(len(elements), nodes, scan)
            assert stored_work(model, unit, level, nodes, scan) == as_arithmetic_costs(
                planned, elements
            )
        assert stored._elements(stored.PATH, model, unit, level).sequential_flops == (  # type: ignore[union-attr]
            elements.sequential_flops
        )


def test_the_largest_are_near_what_arithmetic_gives() -> None:
    # Beyond 2 ** 53, products are kept to the precision of a double.
    elements = network_elements("mask_rcnn", 1, "operator", 6)
    wanted = as_arithmetic_costs(plan(len(elements), 20, "blelloch"), elements)
    assert max(wanted.move_flops) > 2**63
    found = stored_work("mask_rcnn", "operator", 6, 20, "blelloch")
    assert found.move_flops == pytest.approx(wanted.move_flops, rel=1e-15)
    assert found.value_bytes == pytest.approx(wanted.value_bytes, rel=1e-15)


def test_beyond_what_is_stored_all_is_computed() -> None:
    for level, nodes in ((LEVELS + 1, 4), (2, NODES + 1)):
        elements = network_elements("lenet5", 1, "operator", level)
        planned = plan(len(elements), nodes, "hillis_steele")
        found = stored_work("lenet5", "operator", level, nodes, "hillis_steele")
        assert found == as_arithmetic_costs(planned, elements)
    level = LEVELS + 1
    assert stored_groups("lenet5", level=level) == subtasks("lenet5", level=level)


def test_what_other_code_has_stored_is_computed_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups, work = stored_groups("lenet5", 3), stored_work("lenet5", "layer", 1, 4, "blelloch")
    with monkeypatch.context() as patch:
        patch.setattr(stored, "fingerprint", lambda: "another")
        stored.store([], tmp_path / "other.zip")
    for name in ("other.zip", "not there.zip"):
        monkeypatch.setattr(stored, "PATH", tmp_path / name)
        assert not is_stored("lenet5", "layer", 1)
        assert nameless(stored_groups("lenet5", 3)) == nameless(groups)
        assert stored_work("lenet5", "layer", 1, 4, "blelloch") == work


def test_storing_again_gives_the_same_bytes(tmp_path: Path) -> None:
    for path in (tmp_path / "one.zip", tmp_path / "other.zip"):
        stored.store(stored.costs("lenet5"), path)
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "other.zip").read_bytes()
    with zipfile.ZipFile(stored.PATH) as kept, zipfile.ZipFile(tmp_path / "one.zip") as again:
        assert all(kept.read(name) == again.read(name) for name in again.namelist())


def test_a_damaged_file_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "backward.zip"
    path.write_bytes(stored.PATH.read_bytes()[:-900])
    monkeypatch.setattr(stored, "PATH", path)
    with pytest.raises(ValueError, match=r"backward\.zip is damaged.*scripts/trace_zoo\.py"):
        stored_groups("lenet5")


def test_the_fingerprint_follows_the_zoo_the_tracing_and_both_countings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for room in ("zoo", "graphs", "olpb"):
        shutil.copytree(ROOT / "workbench" / room, tmp_path / room)
    monkeypatch.setattr(stored, "_PACKAGE", tmp_path)
    prints = {stored.fingerprint()}
    files = ("zoo/resnet.py", "graphs/tracing.py", "olpb/algorithms/schedules.py")
    for name in (*files, "olpb/costs/patterns.py", "olpb/costs/backward.py"):
        path = tmp_path / name
        path.write_text(path.read_text() + "# changed")
        prints.add(stored.fingerprint())
    assert len(prints) == 6
    (tmp_path / "olpb/costs/timing.py").write_text("")
    assert stored.fingerprint() in prints


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'resnet50'"):
        stored_groups("resnet51")
