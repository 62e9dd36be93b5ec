"""A module as a graph of operators: one tracer for profiles and for pieces of a model.

>>> from workbench import graphs
>>> graph = graphs.trace("lenet5")
>>> [operator.name for operator in graph.operators][:3]
['convolution', 'relu', 'max_pool2d_with_indices']
>>> graphs.find_layers(graph).names
('0', '3', '7', '9', '11')

`trace` records operators below autograd, with what they read, make and cost, and `memory.run` runs
them; `find_layers` says which layer each belongs to. `workbench.graphs.calls` records the calls of
PyTorch above them, which can be run again. PyTorch is imported when a module is traced.
"""

from workbench.graphs.graph import OperatorGraph, UntraceableError
from workbench.graphs.inputs import Input, inputs_of
from workbench.graphs.layers import Layers, find_layers
from workbench.graphs.tracing import By, follow, trace

__all__ = [
    "By",
    "Input",
    "Layers",
    "OperatorGraph",
    "UntraceableError",
    "find_layers",
    "follow",
    "inputs_of",
    "trace",
]
