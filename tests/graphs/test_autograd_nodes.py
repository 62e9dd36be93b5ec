"""Whose an autograd node is."""

import torch
from torch import nn

from workbench.graphs.autograd_nodes import next_node, nodes_behind, owner


def test_a_node_is_the_last_ones_that_began_before_it() -> None:
    module, first_nodes = nn.Sequential(nn.Linear(3, 3), nn.Flatten(0), nn.ReLU()), []
    out = torch.zeros(2, 3)
    for part in (*module, nn.Identity()):
        first_nodes.append(next_node())
        out = part(out)
    owners = {node.name(): owner(node, first_nodes) for node in nodes_behind([out])}
    assert owners == {"AddmmBackward0": 0, "TBackward0": 0, "ViewBackward0": 1, "ReluBackward0": 2}
