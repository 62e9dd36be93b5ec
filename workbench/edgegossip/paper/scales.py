"""What each scale means for EdgeGossip's experiments: what learns, from how much, how often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from workbench.edgegossip.paper.calibration import DEPLOYMENTS, EPOCHS, MODELS
from workbench.edgegossip.paper.testbed import PLATFORMS, POINTS, STATED


class Learner(NamedTuple):
    """A model that learns, itself timed or in the place of one that is.

    Attributes
    ----------
    model
        Of the zoo.
    epochs
        On the first deployment. Twice as many platforms take half as many steps in an epoch, and
        train for half as many epochs again.
    batch_size, learning_rate
        Of the training.
    """

    model: str
    epochs: int
    batch_size: int
    learning_rate: float

    def epochs_on(self, platforms: int) -> int:
        """Epochs on so many platforms."""
        return max(1, self.epochs * (platforms + PLATFORMS) // (2 * PLATFORMS))


class Scale(NamedTuple):
    """What is trained and measured.

    Attributes
    ----------
    learners
        By the model that is timed.
    samples, test_samples
        At most; None for all.
    evaluate_every
        Epochs from one evaluation to the next.
    seeds
        How many trainings of each kind.
    all_techniques
        Models for which each technique of aggregation is trained; of the others, the first.
    deployments
        Numbers of platforms in Fig. 6, trained.
    fig3
        The model whose learner learns from aggregated points alone in Fig. 3, and how often it
        passes over them.
    aggregated, repeats
        Points at most, and measurements, in Fig. 7.
    processes
        That trainings run in; None for one a core.
    """

    learners: Mapping[str, Learner]
    samples: int | None
    test_samples: int | None
    evaluate_every: int
    seeds: int
    all_techniques: Sequence[str]
    deployments: Sequence[int]
    fig3: tuple[str, int]
    aggregated: int
    repeats: int
    processes: int | None = None


def _instead(lenet5: Learner, alexnet: Learner) -> dict[str, Learner]:
    """A small AlexNet for AlexNet, LeNet-5 for itself and the two others."""
    return {name: alexnet if name == MODELS[1] else lenet5 for name in MODELS}


_BATCH: int = STATED["training"]["batch_size"]
_RATE: float = STATED["training"]["learning_rate"]

SCALES = {
    "smoke": Scale(
        learners=_instead(Learner("lenet5", 2, 16, 0.02), Learner("alexnet_small", 2, 16, 0.02)),
        samples=240,
        test_samples=60,
        evaluate_every=1,
        seeds=1,
        all_techniques=MODELS[3:],
        deployments=(8,),
        fig3=(MODELS[0], 2),
        aggregated=1000,
        repeats=1,
        processes=1,
    ),
    "default": Scale(
        learners=_instead(Learner("lenet5", 16, 16, 0.03), Learner("alexnet_small", 24, 16, 0.01)),
        samples=1500,
        test_samples=1000,
        evaluate_every=4,
        seeds=3,
        all_techniques=MODELS[3:],
        deployments=(8,),
        fig3=(MODELS[0], 15),
        aggregated=5000,
        repeats=3,
    ),
    "paper": Scale(
        learners={name: Learner(name, EPOCHS, _BATCH, _RATE) for name in MODELS},
        samples=POINTS,
        test_samples=None,
        evaluate_every=1,
        seeds=3,
        all_techniques=MODELS,
        deployments=DEPLOYMENTS[1:],
        fig3=(MODELS[1], 100),
        aggregated=POINTS,
        repeats=3,
    ),
}
"""What each scale means for this system. Times are always those of the paper's size."""


def learnt_from(scale: str, model: str, dataset: str = "auto") -> str:
    """Name what a model learns from unless told.

    At scale ``paper`` the paper's own: MNIST with LeNet-5, else CIFAR-10. At ``default`` MNIST
    where a copy is on this machine (see `workbench.datasets.data_folder`), else digits, which need
    no network; at ``smoke`` digits.
    """
    if dataset != "auto":
        return dataset
    if scale == "paper":
        return "mnist" if model == "lenet5" else "cifar10"
    return "mnist" if scale == "default" and _mnist_present() else "digits"


def _mnist_present() -> bool:
    from workbench.datasets import data_folder
    from workbench.datasets.mnist import FILES, MNIST

    return all((data_folder() / MNIST.layout / name).is_file() for name in FILES)
