"""Stored profiles: what tracing gives, no longer used once the code has changed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.long import usually
from workbench.paths import ROOT
from workbench.profiles import moved_bytes, profile_model, stored
from workbench.profiles.analytic import costs_of_zoo
from workbench.zoo import MODELS, build

WRITE_ANEW = "run .venv/bin/python scripts/profile_zoo.py"


def lenet5_in(path: Path, monkeypatch: pytest.MonkeyPatch) -> stored.Costs | None:
    """What another file of stored profiles gives for LeNet-5."""
    monkeypatch.setattr(stored, "PATH", path)
    return stored.look_up("lenet5", (MODELS["lenet5"].input_shape,), "float32")


def test_every_model_is_stored_by_the_code_as_it_is() -> None:
    kept = json.loads(stored.PATH.read_text())
    assert kept.pop("traced by") == stored.fingerprint(), WRITE_ANEW
    assert list(kept) == list(MODELS), WRITE_ANEW


@pytest.mark.parametrize("name", usually(("lenet5", "resnet20_cifar"), MODELS))
def test_what_is_stored_is_what_tracing_gives(name: str) -> None:
    shape, module = MODELS[name].input_shape, build(name, device="meta")
    kept = stored.look_up(name, (shape,), "float32")
    assert kept is not None
    assert kept.profile is profile_model(name)
    assert kept.profile == profile_model(module, shape, name=name)
    assert kept.moved_bytes is moved_bytes(name)
    assert kept.moved_bytes.tolist() == moved_bytes(module, shape).tolist()
    assert kept.moved_bytes.dtype == moved_bytes(module, shape).dtype
    assert not kept.moved_bytes.flags.writeable


def test_only_the_models_own_input_is_stored() -> None:
    assert stored.look_up("alexnet", ((3, 200, 200),), "float32") is None
    assert stored.look_up("alexnet", ((3, 224, 224),), "float64") is None
    assert stored.look_up("alexnet", ((3, 224, 224), (3, 224, 224)), "float32") is None


def test_what_other_code_has_stored_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = stored.PATH.read_text()
    (tmp_path / "same.json").write_text(text)
    (tmp_path / "other.json").write_text(text.replace(stored.fingerprint(), "another"))
    (tmp_path / "none.json").write_text("{}")
    assert lenet5_in(tmp_path / "same.json", monkeypatch) is not None
    for name in ("other.json", "none.json", "not there.json"):
        assert lenet5_in(tmp_path / name, monkeypatch) is None


def test_a_damaged_file_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "zoo.json").write_text(stored.PATH.read_text()[:-9])
    with pytest.raises(ValueError, match=r"zoo\.json is damaged.*scripts/profile_zoo\.py"):
        lenet5_in(tmp_path / "zoo.json", monkeypatch)


def test_the_fingerprint_follows_the_zoo_and_the_tracing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for room in ("zoo", "graphs", "profiles"):
        shutil.copytree(ROOT / "workbench" / room, tmp_path / room)
    monkeypatch.setattr(stored, "_PACKAGE", tmp_path)
    before = stored.fingerprint()
    prints = {before}
    tracing = [f"graphs/{name}.py" for name in ("layers", "recorder", "recording", "tracing")]
    tracing += [f"profiles/{name}.py" for name in ("analytic", "model_profile")]
    for name in ("zoo/resnet.py", "zoo/catalogue.py", *tracing):
        path = tmp_path / name
        kept = path.read_text()
        path.write_text(kept + "# changed")
        prints.add(stored.fingerprint())
        path.write_text(kept)
    assert len(prints) == 1 + 8
    assert stored.fingerprint() == before


def test_storing_again_gives_the_same_lines(tmp_path: Path) -> None:
    few = ("lenet5", "squeezenet_cifar")
    stored.store(costs_of_zoo(few), tmp_path / "again.json")
    again, kept = (
        path.read_text().rstrip("}\n").splitlines()
        for path in (tmp_path / "again.json", stored.PATH)
    )
    assert len(again) == 3
    assert {line.strip(",}") for line in again} <= {line.strip(",}") for line in kept}


def test_explorers_draw_without_pytorch() -> None:
    code = "import sys\n"
    for system in ("dynacomm", "hiertrain", "edgegossip", "dlion", "olpb"):
        code += f"from workbench.{system} import explorer; explorer.draw(explorer.Setting())\n"
    code += "print('torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"
