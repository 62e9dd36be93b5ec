"""Costs of a model's layers: analytic, measured, synthetic; and the graph that shows its layers.

>>> from workbench.profiles import LayerTimes, profile_model
>>> profile = profile_model("vgg19")
>>> len(profile)
19
>>> times = LayerTimes.from_flops(profile, flops_per_s=1e12, batch_size=32)

`ModelProfile` holds bytes and FLOPs per layer, the same on every machine; `LayerTimes` holds
seconds per layer on one machine at one batch size. `follow` records the operators of a module below
autograd as an `OperatorGraph`, and `find_layers` gives each its layer; `workbench.profiles.calls`
records the calls of PyTorch above them, which can be run again. PyTorch is imported when a module
is traced.
"""

from workbench.profiles.analytic import moved_bytes, profile_model
from workbench.profiles.graph import OperatorGraph, UntraceableError
from workbench.profiles.inputs import Input, inputs_of
from workbench.profiles.layer_times import LayerTimes
from workbench.profiles.layers import Layers, find_layers
from workbench.profiles.measured import measure_layer_times
from workbench.profiles.model_profile import InputShape, ModelProfile, Tied
from workbench.profiles.synthetic import synthetic_profile
from workbench.profiles.tracing import By, follow

__all__ = [
    "By",
    "Input",
    "InputShape",
    "LayerTimes",
    "Layers",
    "ModelProfile",
    "OperatorGraph",
    "Tied",
    "UntraceableError",
    "find_layers",
    "follow",
    "inputs_of",
    "measure_layer_times",
    "moved_bytes",
    "profile_model",
    "synthetic_profile",
]
