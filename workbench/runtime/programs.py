"""Which node runs which program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from workbench.clusters.cluster import check_cluster
from workbench.errors import UserError

if TYPE_CHECKING:
    from workbench.clusters import Cluster
    from workbench.runtime.context import Program

Programs = Mapping[int, "Program"] | Mapping[str, "Program"] | Sequence["Program"]


def by_node(cluster: Cluster, programs: Programs) -> dict[int, Program]:
    """Return the program of each node."""
    check_cluster(cluster)
    if callable(programs) or not isinstance(programs, Mapping | Sequence):
        raise UserError(
            f"programs is {programs!r}; give one for each node, such as [program] * "
            f"{len(cluster)}, or a mapping from node to program"
        )
    if not isinstance(programs, Mapping):
        if len(programs) != len(cluster):
            raise UserError(
                f"{len(programs)} programs for {len(cluster)} nodes ({', '.join(cluster.names)}); "
                "give one for each, or a mapping from node to program"
            )
        programs = dict(enumerate(programs))
    found = {cluster.index(node): program for node, program in programs.items()}
    if len(found) < len(programs):
        twice = [cluster.index(node) for node in programs]
        node = next(index for index in found if twice.count(index) > 1)
        raise UserError(f"two programs for {cluster.names[node]}, by its name and its index")
    for index, program in found.items():
        if not callable(program):
            raise UserError(
                f"the program of {cluster.names[index]} is {program!r}; give the `async def` "
                "itself, which takes the context, without calling it"
            )
    return found
