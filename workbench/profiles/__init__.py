"""Costs of a model's layers: analytic, measured, synthetic.

>>> from workbench.profiles import LayerTimes, profile_model
>>> profile = profile_model("vgg19")
>>> len(profile)
19
>>> times = LayerTimes.from_flops(profile, flops_per_s=1e12, batch_size=32)

`ModelProfile` holds bytes and FLOPs per layer, the same on every machine; `LayerTimes` holds
seconds per layer on one machine at one batch size. PyTorch is imported when a module is traced.
"""

from workbench.profiles.analytic import moved_bytes, profile_model
from workbench.profiles.layer_times import LayerTimes
from workbench.profiles.measured import measure_layer_times
from workbench.profiles.model_profile import InputShape, ModelProfile
from workbench.profiles.synthetic import synthetic_profile

__all__ = [
    "InputShape",
    "LayerTimes",
    "ModelProfile",
    "measure_layer_times",
    "moved_bytes",
    "profile_model",
    "synthetic_profile",
]
