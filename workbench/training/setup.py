"""What is trained on what, checked before it starts: the part that all systems share."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from workbench.checks import check_number, check_whole
from workbench.errors import UserError
from workbench.training.models import check_model, make_model, profile_of
from workbench.training.sgd import Sgd

if TYPE_CHECKING:
    import torch

    from workbench.datasets import Dataset
    from workbench.profiles import ModelProfile
    from workbench.training.models import Model


@dataclass(frozen=True, eq=False)
class Setup:
    """What every training needs; a system's adds its machines and links.

    Attributes
    ----------
    model
        Name in the zoo, or a function that makes one's own module: their weights are drawn from the
        seed. Or a module: a copy goes on from the weights that it has, as for fine-tuning. Frozen
        parameters (``requires_grad`` is false) stay as they are, and no message carries them. Tried
        on a sample, without learning.
    dataset
        Fitted to the model's input; a model of the zoo gets as many outputs as it has classes.
    epochs
        Passes over all samples.
    seed
        Of weights, batches and whatever the model draws.
    parallel
        Whether steps of several nodes may run beside each other on this machine's cores, where
        a system has such steps; that changes nothing but how long a training takes. True promises
        that the model's code touches nothing but the model, and that neither it nor anything else
        in the run draws from a global generator of random numbers; steps of a model that does so
        in the first one (dropout) run one after the other all the same. None is True for models of
        the zoo and of PyTorch's own layers, without hooks, and False for others.

    Raises
    ------
    ValueError
        Numbers out of range; an unknown model, or one of which every parameter is frozen; a dataset
        that is not one, or whose images the model does not take; a model with fewer outputs than there
        are classes; an `sgd` that is not an `Sgd`.
    """

    model: Model
    dataset: Dataset
    epochs: int = field(default=1, kw_only=True)
    sgd: Sgd = field(default_factory=lambda: Sgd(0.02, momentum=0.9), kw_only=True)
    seed: int = field(default=0, kw_only=True)
    parallel: bool | None = field(default=None, kw_only=True)

    in_own_type: ClassVar[bool] = False
    """Whether the model is given samples in its own number type; or as they are."""

    def __post_init__(self) -> None:
        self._check_counts(epochs=1, seed=0)
        if self.parallel is not None and not isinstance(self.parallel, bool):
            raise UserError(f"parallel is {self.parallel!r}; give True, False or None")
        check_model(self.model, self.dataset, self.seed, in_own_type=self.in_own_type)
        if not isinstance(self.sgd, Sgd):
            raise UserError(f"sgd is {self.sgd!r}; give a training.Sgd, such as Sgd(0.02)")

    def _check_counts(self, **least: int) -> None:
        for name, smallest in least.items():
            object.__setattr__(self, name, check_whole(name, getattr(self, name), smallest))

    def _check_positive(self, *names: str) -> None:
        for name in names:
            number = check_number(name, getattr(self, name))
            if not 0 < number < math.inf:
                raise UserError(f"{name} is {number}; it must be finite and above 0")
            object.__setattr__(self, name, number)

    def made(self) -> torch.nn.Module:
        """The model with its first weights, a new one each time."""
        return make_model(self.model, self.dataset, self.seed)

    @cached_property
    def profile(self) -> ModelProfile:
        """What each layer of the model costs."""
        return profile_of(self.model, self.dataset, self.seed)
