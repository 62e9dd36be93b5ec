"""Stored profiles: what tracing gives, no longer used once the code has changed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from workbench.profiles import moved_bytes, profile_model, stored
from workbench.zoo import MODELS, build

WRITE_ANEW = "run .venv/bin/python scripts/profile_zoo.py"


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the stored profiles, which the package reads instead of its own."""
    path = tmp_path / "zoo.json"
    path.write_bytes(stored.PATH.read_bytes())
    monkeypatch.setattr(stored, "PATH", path)
    yield path
    stored._load.cache_clear()


def test_every_model_is_stored_by_the_code_as_it_is() -> None:
    kept = json.loads(stored.PATH.read_text())
    assert kept.pop("traced by") == stored.fingerprint(), WRITE_ANEW
    assert list(kept) == list(MODELS), WRITE_ANEW


@pytest.mark.parametrize("name", MODELS)
def test_what_is_stored_is_what_tracing_gives(name: str) -> None:
    shape, module = MODELS[name].input_shape, build(name, device="meta")
    kept = stored.stored(name, (shape,), "float32")
    assert kept is not None
    assert kept.profile is profile_model(name)
    assert kept.profile == profile_model(module, shape, name=name)
    assert kept.moved_bytes is moved_bytes(name)
    assert kept.moved_bytes.tolist() == moved_bytes(module, shape).tolist()
    assert kept.moved_bytes.dtype == moved_bytes(module, shape).dtype
    assert not kept.moved_bytes.flags.writeable


def test_only_the_models_own_input_is_stored() -> None:
    assert stored.stored("alexnet", ((3, 200, 200),), "float32") is None
    assert stored.stored("alexnet", ((3, 224, 224),), "float64") is None
    assert stored.stored("alexnet", ((3, 224, 224), (3, 224, 224)), "float32") is None


def test_what_other_code_has_stored_is_not_used(elsewhere: Path) -> None:
    shape = MODELS["lenet5"].input_shape
    assert stored.stored("lenet5", (shape,), "float32") is not None
    stored._load.cache_clear()
    elsewhere.write_text(elsewhere.read_text().replace(stored.fingerprint(), "another"))
    assert stored.stored("lenet5", (shape,), "float32") is None


def test_without_the_file_all_are_traced(elsewhere: Path) -> None:
    elsewhere.unlink()
    assert stored.stored("lenet5", (MODELS["lenet5"].input_shape,), "float32") is None


def test_the_fingerprint_follows_the_zoo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def written(zoo: str, tracing: str) -> str:
        for folder in ("zoo", "profiles"):
            (tmp_path / folder).mkdir(exist_ok=True)
        for name in stored._TRACING:
            (tmp_path / "profiles" / name).write_text(tracing)
        (tmp_path / "zoo" / "net.py").write_text(zoo)
        return stored.fingerprint()

    monkeypatch.setattr(stored, "_HERE", tmp_path / "profiles")
    prints = {written(zoo, tracing) for zoo in ("a", "b") for tracing in ("c", "d")}
    assert len(prints) == 4
    assert written("a", "c") in prints


def test_storing_again_gives_the_same_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = ("lenet5", "squeezenet_cifar")
    monkeypatch.setattr(stored, "MODELS", {name: MODELS[name] for name in few})
    stored.store(tmp_path / "again.json")
    again, kept = (
        path.read_text().rstrip("}\n").splitlines()
        for path in (tmp_path / "again.json", stored.PATH)
    )
    assert len(again) == 3
    assert {line.strip(",}") for line in again} <= {line.strip(",}") for line in kept}


@pytest.mark.parametrize("system", ["dynacomm", "hiertrain", "edgegossip"])
def test_an_explorer_draws_without_pytorch(system: str) -> None:
    code = (
        f"import sys; from workbench.{system} import explorer;"
        "explorer.draw(**{name: one.value for name, one in explorer.CONTROLS.items()}).to_dict();"
        "print('torch' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"
