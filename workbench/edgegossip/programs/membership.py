"""Checks of platforms and shards, by themselves and against a gossip training's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workbench.checks import listed
from workbench.decentralised import GossipSetup
from workbench.edgegossip.costs.platforms import Platform
from workbench.errors import UserError

Indices = NDArray[np.int64]


def check_platforms(platforms: object) -> tuple[Platform, ...]:
    """Refuse what is no sequence of platforms, or empty."""
    members: tuple[Any, ...] = listed(
        "platforms", platforms, "give edgegossip.Platforms, one for each node"
    )
    if not members:
        raise UserError("there are no platforms; give at least one")
    for platform in members:
        if not isinstance(platform, Platform):
            raise UserError(f"a platform is {platform!r}; give an edgegossip.Platform")
    return members


def check_shards(platforms: Sequence[Platform], shards: object) -> tuple[Indices, ...]:
    """Return a shard of indices for each platform, as int64."""
    arrays = tuple(
        map(np.asarray, listed("shards", shards, "give the indices of each platform's samples"))
    )
    if len(platforms) != len(arrays):
        raise UserError(
            f"{len(platforms)} platforms, {len(arrays)} shards; each platform needs one"
        )
    for platform, shard in zip(platforms, arrays, strict=True):
        if shard.ndim != 1 or not len(shard) or not np.issubdtype(shard.dtype, np.integer):
            raise UserError(
                f"the shard of {platform.name} is {shard.dtype} of shape {shard.shape}; give the "
                "indices of at least one sample"
            )
    return tuple(shard.astype(np.int64) for shard in arrays)


def check_agrees(
    platforms: Sequence[Platform], shards: Sequence[Indices], setup: GossipSetup
) -> None:
    """Refuse a gossip training of other platforms, another order or other shards."""
    names, nodes = [platform.name for platform in platforms], list(setup.cluster.names)
    if len(names) != len(nodes):
        raise UserError(
            f"EdgeGossip has {len(names)} platforms, the setup {len(nodes)} nodes; make both of "
            "the same platforms, as edgegossip.train does"
        )
    if nodes != names and sorted(nodes) == sorted(names):
        raise UserError(
            f"EdgeGossip has the platforms in the order {', '.join(names)}, the setup's cluster "
            f"{', '.join(nodes)}; give both the same order"
        )
    for name, own, theirs in zip(names, shards, setup.shards, strict=True):
        if not np.array_equal(own, theirs):
            raise UserError(
                f"EdgeGossip has another shard of {name} than the setup; give both the same, as "
                "edgegossip.train does"
            )
