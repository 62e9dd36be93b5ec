"""What is trained on what, checked before it starts: the part that all systems share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, chain, islice
from typing import TYPE_CHECKING, Any, ClassVar

from numpy.typing import NDArray

from workbench.runtime.threads import GlobalGenerators
from workbench.training.batches import batches
from workbench.training.evaluation import evaluate, gradient_step
from workbench.training.flat_model import FlatModel, copied, flatten
from workbench.training.models import (
    check_model,
    inputs_in_type,
    make_model,
    profile_of,
)
from workbench.training.objective import CLASSES, Objective, objective_of
from workbench.training.passes import Batches
from workbench.training.pieces import Pieces, cut
from workbench.training.sgd import Sgd
from workbench.utils.checks import UserError, at_least, check_fields, optional

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import Tensor

    from workbench.datasets import Dataset
    from workbench.datasets.dataset import Samples
    from workbench.profiles import ModelProfile
    from workbench.profiles.inputs import Input
    from workbench.training.models import Model


@dataclass(frozen=True, eq=False)
class Setup:
    """What every training needs; a system's adds its machines and links.

    Attributes
    ----------
    model
        Name in the zoo, or a function that makes one's own module: their weights are drawn from the
        seed. Or a module: a copy goes on from the weights that it has now, as for fine-tuning, its
        parts in the modes that they have, training or evaluation. Frozen parameters
        (``requires_grad`` is false) stay as they are, and no message carries them. Tried on
        samples, without learning.
    dataset
        Fitted to the model's input; a model of the zoo gets as many outputs as it has classes.
    objective
        What is learnt: a name in `OBJECTIVES`, a loss, or an `Objective`, whose metrics are columns
        of the results. None takes what labels ask for: classes, tokens at positions, or numbers.
    outputs
        From what the model returns to the tensor that is compared with labels, where that is not
        plain: it is for a tensor, for something with ``logits``, for several values of which one is
        a tensor.
    epochs
        Passes over all samples.
    sgd
        Optimiser, such as ``Sgd(0.02, momentum=0.9)``.
    seed
        Seed of the first weights, the batches and whatever the model draws.
    parallel
        Whether steps of several nodes may run beside each other on this machine's cores, where
        a system has such steps; that changes nothing but how long a training takes. True promises
        that the model's code touches nothing but the model, and that neither it nor anything else
        in the run draws from a global generator of random numbers; steps of a model that does so
        in the first one (dropout) run one after the other all the same. None is True for models of
        the zoo by name, and False for others.

    Raises
    ------
    UserError
        Numbers out of range; an unknown model; one that does not take the data set's samples, or
        has parameters on which the loss does not depend; a loss that is not a number.
    """

    model: Model
    dataset: Dataset
    epochs: int = field(default=1, kw_only=True, metadata=at_least(1))
    sgd: Sgd = field(default_factory=lambda: Sgd(0.02, momentum=0.9), kw_only=True)
    seed: int = field(default=0, kw_only=True, metadata=at_least(0))
    parallel: bool | None = field(default=None, kw_only=True)
    objective: Any = field(default=None, kw_only=True)
    outputs: Callable[[Any], Tensor] | None = field(default=None, kw_only=True)

    in_own_type: ClassVar[bool] = False
    """Whether the model is given samples in its own number type; or as they are."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.parallel is not None and not isinstance(self.parallel, bool):
            raise UserError(f"parallel is {self.parallel!r}; give True, False or None")
        object.__setattr__(self, "objective", objective_of(self.objective, self.dataset))
        if not (self.outputs is None or callable(self.outputs)):
            raise UserError(
                f"outputs is {self.outputs!r}; give a function of what the model returns"
            )
        if not isinstance(self.model, str):
            from torch import nn

            if isinstance(self.model, nn.Module):
                object.__setattr__(self, "model", copied(self.model))
        check_model(
            *(self.model, self.dataset, self.seed, self.objective, self.outputs),
            in_own_type=self.in_own_type,
        )
        if not isinstance(self.sgd, Sgd):
            raise UserError(f"sgd is {self.sgd!r}; give a training.Sgd, such as Sgd(0.02)")

    def made(self) -> torch.nn.Module:
        """The model with its first weights, a new one each time."""
        return make_model(self.model, self.dataset, self.seed, self.outputs)

    def flat(self) -> FlatModel:
        """The same, laid flat."""
        module = self.made()
        return flatten(module, self.inputs(module))

    def inputs(self, module: torch.nn.Module) -> tuple[Input, ...]:
        """What the model is given for a sample."""
        return inputs_in_type(module, self.dataset) if self.in_own_type else self.dataset.inputs

    def pieces(self, flat: FlatModel) -> Pieces:
        """The model in layers."""
        return cut(flat.module, self.inputs(flat.module))

    @cached_property
    def profile(self) -> ModelProfile:
        """What each layer of the model costs."""
        return profile_of(self.model, self.dataset, self.seed, self.outputs)


@dataclass(frozen=True, eq=False)
class WholeBatches(Setup, ABC):
    """A setup with batches of one size; a system's says of which, by `samples_per_batch`.

    Attributes
    ----------
    epochs
        Passes over the samples; those that fill no batch are left out, others each time.
    iterations
        Stop after this many instead; an epoch that is begun then counts as one.
    """

    iterations: int | None = field(default=None, kw_only=True, metadata=optional(at_least(1)))

    def __post_init__(self) -> None:
        super().__post_init__()
        samples = len(self.dataset.y_train)
        if samples < self.samples_per_batch:
            raise UserError(
                f"{self.dataset.name} has {samples} training samples, less than one batch of "
                f"{self.samples_per_batch}; use more samples or a smaller batch"
            )

    @property
    @abstractmethod
    def samples_per_batch(self) -> int:
        """Samples of an iteration, on all machines together."""

    @property
    def epoch_ends(self) -> tuple[int, ...]:
        """Iterations up to the end of each epoch."""
        ends = accumulate([self._per_epoch] * self._epochs)
        return tuple(min(end, self.iterations or end) for end in ends)

    @property
    def batches(self) -> list[NDArray[np.int64]]:
        """Indices of each iteration's samples."""
        size = self.samples_per_batch
        drawn = (batches(self.dataset, size, self.seed, epoch) for epoch in range(self._epochs))
        whole = (batch for batch in chain.from_iterable(drawn) if len(batch) == size)
        return list(islice(whole, self.epoch_ends[-1]))

    def begin(self) -> tuple[FlatModel, Batches]:
        """The model with its first weights, laid flat, and its batches, both in its number type."""
        flat = self.flat()
        return flat, Batches(self.dataset, self.batches, flat.parameters)

    @property
    def _per_epoch(self) -> int:
        return len(self.dataset.y_train) // self.samples_per_batch

    @property
    def _epochs(self) -> int:
        return self.epochs if self.iterations is None else -(-self.iterations // self._per_epoch)


def may_run_in_parallel(setup: Setup, flat: FlatModel) -> bool:
    """Whether steps of the model's replicas may run beside each other."""
    promised = isinstance(setup.model, str) if setup.parallel is None else setup.parallel
    if not promised or flat.device.type != "cpu":
        return False
    data = setup.dataset
    return not draws_at_random(flat, data.x_train[:2], data.y_train[:2], setup.objective)


def draws_at_random(
    flat: FlatModel, x: Samples, y: NDArray[Any], objective: Objective = CLASSES
) -> bool:
    """Whether learning from these samples, or evaluation, draws from a global generator.

    PyTorch's, NumPy's or Python's. Tried on a copy of the model; the generators' states are
    restored. Where that fails, the model counts as drawing.
    """
    generators = GlobalGenerators()
    try:
        replica = flat.replica()
        gradient_step(replica, x, y, objective=objective)
        evaluate(replica.module, x, y, objective=objective)
        return bool(generators.moved())
    except Exception:
        return True  # and the training itself will say what is wrong
    finally:
        generators.restore()
