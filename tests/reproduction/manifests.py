"""A manifest to change, and files to damage."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from workbench.reproduction.manifest import Manifest


def flipped(path: Path, count: int) -> Iterator[None]:
    """Damage a file by one bit, `count` times; it is whole again before the next."""
    whole = path.read_bytes()
    for bit in random.Random(1).sample(range(8 * len(whole)), count):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        yield
    path.write_bytes(whole)


MADE = Manifest(
    of="",
    system="toy",
    arguments={},
    made_at="2026-01-01T00:00:00Z",
    seconds=60.0,
    revision=None,
    dirty=None,
    versions={},
    instruction_set={},
    machine={"processor": "one"},
    outputs={},
)
