"""Whose an autograd node is."""

from workbench.graphs.autograd_nodes import NodeOwners


def test_node_owners() -> None:
    owners = NodeOwners([0, 4, 4, 7])
    assert [owners[node] for node in (0, 3, 4, 5, 6, 7, 100)] == [0, 0, 2, 2, 2, 3, 3]
