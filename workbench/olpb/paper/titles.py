"""Titles of networks, planners and methods, and what charts of several modules share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PLANNER_TITLES = {
    "workbench": "workbench",
    "pebble": "pebble game",
    "greedy_by_size": "greedy by size",
    "best_fit": "best fit",
    "parent": "a parent's block",
    "none": "no plan",
}
MODEL_TITLES = {
    "lenet5": "LeNet-5",
    "cifarnet": "CifarNet",
    "squeezenet": "SqueezeNet",
    "squeezenet_cifar": "SqueezeNet (CIFAR-10)",
    "vgg16": "VGG-16",
    "googlenet": "GoogLeNet",
    "resnet50": "ResNet-50",
    "resnet152": "ResNet-152",
    "inception_v3": "Inception-v3",
    "inception_v4": "Inception-v4",
    "mobilenet_v2": "MobileNet-v2",
    "mask_rcnn": "Mask R-CNN",
}
METHOD_TITLES = {
    "olpb_l2": "OLPB, l = 2",
    "olpb_l3": "OLPB, l = 3",
    "bppsa": "BPPSA",
    "dpb": "DPB",
}
SCAN_TITLES = {"hillis_steele": "Hillis-Steele", "blelloch": "Blelloch"}

MB = 1e6
TENS = [10.0**power for power in range(-9, 10)]
"""Labels of a logarithmic axis, far enough apart to be read."""


def megabytes(size_bytes: int) -> str:
    """Text of a size, to three digits or to a megabyte."""
    mb = size_bytes / MB
    return f"{mb:,.0f} MB" if mb >= 100 else f"{mb:.3g} MB"


def model_title(row: Mapping[str, Any]) -> str:
    """Title of a row's network, or its name."""
    return MODEL_TITLES.get(row["model"], row["model"])


def phase_title(row: Mapping[str, Any]) -> str:
    """Whether a row is of inference, or of a step of training, with its batch size."""
    return f"a step of training, batch {row['batch_size']}" if row["training"] else "inference"
