"""A manifest to change."""

from __future__ import annotations

from workbench.store.manifest import Manifest

MADE = Manifest(
    of="",
    system="toy",
    arguments={},
    inputs={},
    made_at="2026-01-01T00:00:00Z",
    seconds=60.0,
    revision=None,
    dirty=None,
    versions={},
    instruction_set={},
    machine={"processor": "one"},
    outputs={},
)
