"""Which training samples each node holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from workbench.checks import listed
from workbench.errors import UserError

if TYPE_CHECKING:
    from workbench.clusters import Cluster
    from workbench.datasets import Dataset


def check_shards(
    shards: object, cluster: Cluster, dataset: Dataset
) -> tuple[NDArray[np.int64], ...]:
    """Return indices of the training samples of each node of a cluster, as arrays.

    Raises ValueError: not one for each node; one without samples, or with some that are not there.
    """
    found = tuple(
        np.asarray(shard)
        for shard in listed(
            "shards",
            shards,
            "give the indices of each node's samples, such as "
            "partition.by_size(dataset.y_train, [1] * nodes, seed=0)",
        )
    )
    if len(found) != len(cluster):
        raise UserError(
            f"{len(found)} shards for a cluster of {len(cluster)} nodes; each node needs one"
        )
    count = len(dataset.y_train)
    for node, shard in enumerate(found):
        if shard.ndim != 1 or not len(shard):
            raise UserError(
                f"the shard of node {node} is of shape {shard.shape}; give the indices of at "
                "least one sample"
            )
        if not np.issubdtype(shard.dtype, np.integer):
            raise UserError(
                f"the shard of node {node} is of {shard.dtype}; give integers, the indices of its "
                "samples"
            )
        if shard.min() < 0 or shard.max() >= count:
            raise UserError(
                f"the shard of node {node} has indices from {shard.min()} to {shard.max()}, "
                f"but {dataset.name} has training samples 0 to {count - 1}"
            )
    return found
