"""Files are written whole or not at all, and a damaged one is never taken for another."""

from __future__ import annotations

import dataclasses
import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.reproduction.manifests import MADE, flipped
from workbench.profiles import LayerTimes, ModelProfile, synthetic_profile
from workbench.reproduction.folder import writable
from workbench.reproduction.manifest import NAME, Manifest
from workbench.reproduction.points import PointFolder
from workbench.runtime.trace import Trace
from workbench.utils import files
from workbench.utils.checks import UserError

PROFILE = synthetic_profile(3, seed=1)
TIMES = LayerTimes.from_flops(PROFILE, flops_per_s=1e9, batch_size=4)
TRACE = Trace.of([("a", "cpu", "forward", 0.1, 0.25, 8, "work")])


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Let no file grow beyond `size` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def same(one: object, other: object) -> bool:
    if isinstance(one, Trace) and isinstance(other, Trace):
        return one.frame.equals(other.frame)
    return one == other


class TestDamage:
    @pytest.mark.parametrize("saved", [PROFILE, TIMES, TRACE], ids=["profile", "times", "trace"])
    def test_no_flipped_bit_makes_other_numbers(
        self, saved: ModelProfile | LayerTimes | Trace, tmp_path: Path
    ) -> None:
        path = tmp_path / "saved.parquet"
        saved.save(path)
        assert same(type(saved).load(path), saved)
        for _ in flipped(path, 600):
            with suppress(UserError):  # else the bit was in the digest's name
                assert same(type(saved).load(path), saved)

    def test_a_file_without_a_digest_is_read(self, tmp_path: Path) -> None:
        PROFILE.table.write_parquet(tmp_path / "own.parquet")
        frame, about = files.read_parquet(tmp_path / "own.parquet")
        assert frame.equals(PROFILE.table)
        assert about == {}
        told = {"kind": "a table of layer times", "name": "m", "batch_size": 4, "device": "cpu"}
        for more, refusal in (({}, ""), ({"device_name": "x"}, "of another version")):
            TIMES.table.write_parquet(
                tmp_path / "earlier.parquet", metadata={"workbench": json.dumps(told | more)}
            )
            if refusal:
                with pytest.raises(UserError, match=refusal):
                    LayerTimes.load(tmp_path / "earlier.parquet")
            else:
                assert LayerTimes.load(tmp_path / "earlier.parquet").table.equals(TIMES.table)

    @pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1PAR1", bytes(500), b"a,b\n1,2\n"])
    def test_what_is_not_parquet_is_refused(self, content: bytes, tmp_path: Path) -> None:
        (tmp_path / "x.parquet").write_bytes(content)
        with pytest.raises(UserError, match=r"x\.parquet is damaged, or not a parquet file"):
            ModelProfile.load(tmp_path / "x.parquet")

    def test_a_damaged_point_of_a_sweep_is_not_taken(self, tmp_path: Path) -> None:
        points = PointFolder(tmp_path)
        rows = [{"seed": 1, "top1": 0.5, "name": "é"}, {"seed": 2, "top1": 1 / 3, "name": "b"}]
        points["size=1"] = rows
        (path,) = tmp_path.rglob("*.json")
        assert points.get("size=1") == rows
        read = [points.get("size=1") for _ in flipped(path, 400)]
        assert all(damaged in (None, rows) for damaged in read)  # a bit of the layout is no damage
        assert read.count(None) > 300

    def test_no_flipped_bit_of_a_manifest_is_other_provenance(self, tmp_path: Path) -> None:
        made = dataclasses.replace(MADE, seeds=[1, 2], outputs={"a.parquet": "0" * 64})
        files.write_text(tmp_path / NAME, made.to_json())
        assert Manifest.read(tmp_path) == made
        for _ in flipped(tmp_path / NAME, 600):
            with suppress(ValueError):  # else the bit was one of the layout
                assert Manifest.read(tmp_path) == made


class TestWriting:
    def test_a_full_disk_leaves_the_old_file_and_names_the_new(self, tmp_path: Path) -> None:
        path = tmp_path / "x.csv"
        files.write_text(path, "old")
        with full_disk(5000), pytest.raises(OSError, match=r"too large.*x\.csv'$"):
            files.write_text(path, "n" * 6000)
        assert path.read_text() == "old"
        assert list(tmp_path.iterdir()) == [path]

    def test_links_are_followed(self, tmp_path: Path) -> None:
        (tmp_path / "there").mkdir()
        (tmp_path / "link.txt").symlink_to("there/x.txt")
        files.check_output("-o", tmp_path / "link.txt")
        files.write_text(tmp_path / "link.txt", "new")
        assert (tmp_path / "there" / "x.txt").read_text() == "new"
        assert (tmp_path / "link.txt").is_symlink()

    def test_a_device_is_written_to_and_stays_one(self, tmp_path: Path) -> None:
        (tmp_path / "null").symlink_to("/dev/null")
        (tmp_path / "full").symlink_to("/dev/full")
        for name in ("null", "full"):
            files.check_output("-o", tmp_path / name)
        files.write_text(tmp_path / "null", "x")
        assert Path("/dev/null").is_char_device()
        with pytest.raises(OSError, match=r"No space left on device: '.*/full'"):
            files.write_text(tmp_path / "full", "x")

    def test_what_cannot_be_written_is_refused_before(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        (tmp_path / "loop").symlink_to(tmp_path / "loop")
        wrong = {
            ".": "this is a folder; give a file",
            "nowhere/x": "there is no folder .*/nowhere",
            "file/x": "there is no folder .*/file",
            "loop/x": "there is no folder .*/loop",
            "x" * 300: r"cannot be written there \(File name too long\)",
            "/proc/x": r"cannot be written there \(No such file or directory\)",
        }
        for name, why in wrong.items():
            with pytest.raises(UserError, match=f"^--csv .*: .*{why}"):
                files.check_output("--csv", tmp_path / name)
        with full_disk(100), pytest.raises(UserError, match="File too large"):
            files.check_output("--csv", tmp_path / "x")
        files.check_output("--csv", tmp_path / "x")
        assert {path.name for path in tmp_path.iterdir()} == {"file", "loop"}

    def test_a_folder_that_cannot_be_written_is_refused_before(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        (tmp_path / "loop").symlink_to(tmp_path / "loop")
        for name in ("file", "file/x", "loop", "loop/x", "/proc/x"):
            with pytest.raises(UserError, match=r"^cannot write to .*: [^(]+$"):
                writable(tmp_path / name)
        with full_disk(100), pytest.raises(UserError, match="File too large"):
            writable(tmp_path / "new")
        writable(tmp_path / "new")
        assert not list((tmp_path / "new").iterdir())


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/full", "/dev/null"])
def test_a_device_is_no_table(device: str) -> None:
    with pytest.raises(UserError, match=f"{device} is a device or a pipe; give a file"):
        files.read_parquet(device)
