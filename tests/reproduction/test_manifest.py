"""A manifest is read as it was written, or refused in a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.reproduction.manifests import MADE
from workbench.reproduction.manifest import NAME, Manifest, OtherVersionError, sealed
from workbench.reproduction.recordings import FOLDER

MANIFESTS = sorted(FOLDER.glob(f"*/*/{NAME}"))
FIELDS = {name: value for name, value in json.loads(MADE.to_json()).items() if name != "sha256"}
DAMAGED = {
    **{name: MADE.to_json().replace(f'"{name}":', f'"{name}x":') for name in FIELDS},
    "changed": MADE.to_json().replace("60.0", "61.0"),
    "without a seal": json.dumps(FIELDS),
    "without a field": sealed({name: FIELDS[name] for name in FIELDS if name != "system"}),
    "with another field": sealed(FIELDS | {"x": 1}),
    "half": MADE.to_json()[:200],
    "a list": "[]",
    "empty": "",
}


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: " ".join(path.parts[-3:-1]))
def test_committed_manifests_are_written_as_they_are_read(path: Path) -> None:
    assert Manifest.read(path.parent).to_json() == path.read_text()


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED)
def test_damage_is_refused_in_a_line(text: str, tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(text)
    with pytest.raises(ValueError, match=r"\A.+\Z"):
        Manifest.read(tmp_path)


def test_another_version_is_told_from_damage(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text('{"format": 1}')
    with pytest.raises(OtherVersionError, match="of another version of the workbench"):
        Manifest.read(tmp_path)
    with pytest.raises(FileNotFoundError):
        Manifest.read(tmp_path / "nowhere")
