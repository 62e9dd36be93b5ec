"""What a model is trained for: its loss, and the metrics beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from workbench.datasets import IGNORED, Dataset
from workbench.utils.checks import UserError, choose

if TYPE_CHECKING:
    from torch import Tensor

Loss = Callable[["Tensor", "Tensor"], "Tensor"]
"""From outputs and labels of a batch to a mean over its labels: a tensor of one number."""

Outputs = Callable[[Any], "Tensor"]
"""From what a model returns to the tensor that a loss compares with labels."""


def cross_entropy(outputs: Tensor, labels: Tensor) -> Tensor:
    """Negative logarithm of the label's softmax probability.

    Outputs are scores, N x classes for a label a sample, N x T x classes for one a position. It is
    0 where no label counts.
    """
    from torch.nn import functional

    if labels.dim() > 1:
        outputs, labels = outputs.flatten(0, -2), labels.flatten()
        if not (labels != IGNORED).any():
            return 0 * outputs.sum()
    return functional.cross_entropy(outputs, labels, ignore_index=IGNORED)


def squared_error(outputs: Tensor, labels: Tensor) -> Tensor:
    """Squared difference, over all numbers of all labels."""
    from torch.nn import functional

    return functional.mse_loss(*check_alike(outputs, labels))


TAKEN = frozenset(
    (
        *("at_s", "bytes", "consensus_error", "epoch", "iteration", "learning_rate", "loss"),
        *("name", "node", "restarts", "samples", "seed", "test_loss", "method"),
    )
)
"""Columns of results that no metric may have."""


@dataclass(frozen=True)
class Metric:
    """What models are compared by, beside their loss: a mean over labels.

    `each` gives a number for each label, or for each sample; None stands for the loss. The metric
    is `of_mean` of the mean: its exponential, say. Charts and tables call it `title`, by default
    its name; with `percent` they show a fraction as a percentage.
    """

    each: Callable[[Tensor, Tensor], Tensor] | None = None
    of_mean: Callable[[float], float] = float
    title: str = ""
    percent: bool = False
    higher_is_better: bool = False

    @property
    def heading(self) -> str:
        """Title of an axis or a column."""
        return f"{self.title}, %" if self.percent else self.title

    @property
    def scale(self) -> float:
        """Factor of values where they are shown."""
        return 100.0 if self.percent else 1.0

    def __post_init__(self) -> None:
        for name, value in (("each", self.each), ("of_mean", self.of_mean)):
            if not callable(value) and (name, value) != ("each", None):
                raise UserError(f"{name} of a metric is {value!r}; give a function")


@dataclass(frozen=True, eq=False)
class Objective:
    """What a model is trained for.

    >>> objective = Objective(lambda outputs, labels: (outputs - labels).abs().mean())

    Attributes
    ----------
    loss
        Given outputs and labels of a batch, the mean over them, from which gradients are taken.
    metrics
        By name, which is that of a column beside ``loss`` in evaluations: a `Metric`, or the
        function that it has for `each`. Comparisons show the first.
    """

    loss: Loss
    metrics: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.metrics, Mapping):
            raise UserError(f"metrics is {self.metrics!r}; give functions by name, in a dictionary")
        for name, value in {"loss": self.loss, **self.metrics}.items():
            if not callable(value) and not isinstance(value, Metric):
                raise UserError(f"{name} is {value!r}; give a function of outputs and labels")
        titled = {}
        for name, value in self.metrics.items():
            if not isinstance(name, str) or name in TAKEN or name.startswith("train_"):
                raise UserError(f"a metric cannot be called {name!r}, as results have that column")
            metric = value if isinstance(value, Metric) else Metric(value)
            titled[name] = replace(metric, title=metric.title or name)
        object.__setattr__(self, "metrics", titled)

    @property
    def shown(self) -> str | None:
        """Name of the metric that comparisons show beside the loss."""
        return next(iter(self.metrics), None)

    def value(self, returned: object, labels: Tensor) -> Tensor:
        """The loss of what a model has returned; refused if it is not a number."""
        import torch

        outputs = output_tensor(returned)
        if self.loss is cross_entropy:
            check_scores(outputs, labels)
        loss = called("the loss", self.loss, outputs, labels)
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or loss.is_complex():
            kind = type(loss).__name__
            if isinstance(loss, torch.Tensor):
                kind = f"a tensor of shape {tuple(loss.shape)} of {loss.dtype}"
            raise UserError(f"the loss is {kind}; give one that is a tensor of one number, a mean")
        return loss

    def each(self, outputs: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Metrics that have a number for each label or sample; refused if they give none."""
        import torch

        metrics = {}
        for name, metric in self.metrics.items():
            if metric.each is not None:
                values = called(f"metric {name!r}", metric.each, outputs, labels)
                if not isinstance(values, torch.Tensor):
                    raise UserError(
                        f"metric {name!r} gives {type(values).__name__}; give a tensor with a "
                        "number for each label, or for each sample"
                    )
                metrics[name] = values
        return metrics


def called(what: str, function: Callable[..., Any], *tensors: Tensor) -> Any:
    """Call a user's function of tensors."""
    try:
        return function(*tensors)
    except UserError:
        raise
    except Exception as error:
        shapes = " and ".join(str(tuple(tensor.shape)) for tensor in tensors)
        raise UserError(
            f"{what} fails on tensors of shapes {shapes}: {type(error).__name__}: {error}"
        ) from error


def output_tensor(returned: Any) -> Tensor:
    """The tensor among what a model returns, if it is unambiguous.

    A tensor as it is; of a dictionary or an object its ``logits``; of several values the only one
    that is a tensor.
    """
    import torch

    if isinstance(returned, torch.Tensor):
        return returned
    if isinstance(returned, Mapping):
        named = dict(returned)
    elif isinstance(returned, tuple | list) and not hasattr(returned, "_fields"):
        named = dict(enumerate(returned))
    else:
        names: Any = getattr(returned, "_fields", None) or getattr(returned, "__slots__", None)
        named = {
            name: getattr(returned, name) for name in names or getattr(returned, "__dict__", ())
        }
    tensors = [value for value in named.values() if isinstance(value, torch.Tensor)]
    chosen = named.get("logits", tensors[0] if len(tensors) == 1 else None)
    if not isinstance(chosen, torch.Tensor):
        parts = ", ".join(f"{name!r}: {type(value).__name__}" for name, value in named.items())
        raise UserError(
            f"the model returns {type(returned).__name__} ({parts}); say which tensor is compared "
            "with labels, by a function: outputs=lambda returned: returned[0]"
        )
    return chosen


def check_scores(outputs: Tensor, labels: Tensor) -> None:
    """Refuse outputs that are not scores, one for each class of each label."""
    if labels.is_floating_point():
        dtype = str(labels.dtype).removeprefix("torch.")
        raise UserError(f"labels are {dtype}; those of classes are int64: convert them")
    if outputs.shape[:-1] != labels.shape:
        raise UserError(
            f"the model gives outputs of shape {tuple(outputs.shape)} for labels of shape "
            f"{tuple(labels.shape)}; a classifier gives samples x classes for a label each sample, "
            "and samples x positions x classes for one each position"
        )
    check_classes(labels, outputs.shape[-1])


def check_classes(labels: Any, classes: int) -> None:
    """Refuse labels, an array or a tensor, that are not among a model's classes."""
    counted = labels if labels.ndim == 1 else labels[labels != IGNORED]
    if len(counted) and not 0 <= int(counted.min()) <= int(counted.max()) < classes:
        raise UserError(
            f"labels go from {int(counted.min())} to {int(counted.max())}, but the model has "
            f"{classes} outputs, for labels from 0"
        )


def check_alike(outputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return outputs and labels as floats of one shape; a number a sample may be N or N x 1."""
    if outputs.dim() == labels.dim() + 1 and outputs.shape[-1] == 1:
        outputs = outputs[..., 0]
    elif labels.dim() == outputs.dim() + 1 and labels.shape[-1] == 1:
        labels = labels[..., 0]
    if outputs.shape != labels.shape:
        raise UserError(
            f"the model gives outputs of shape {tuple(outputs.shape)} for labels of shape "
            f"{tuple(labels.shape)}; a regression gives as many numbers as there are labels"
        )
    return outputs, labels.to(outputs.dtype)


def ranks(outputs: Tensor, labels: Tensor) -> Tensor:
    """Rank of each label's score, 0 for the highest, without ignored labels.

    Of equal scores that of the lower class is the higher. Where a score is NaN, the rank is last.
    """
    import torch

    scores, labels = outputs.flatten(0, -2), labels.flatten()
    if bool((ignored := labels == IGNORED).any()):
        scores, labels = scores[~ignored], labels[~ignored]
    classes = scores.shape[1]
    own = scores.gather(1, labels[:, None])
    lower = torch.arange(classes, device=scores.device) < labels[:, None]
    before = (scores > own) | ((scores == own) & lower)
    return before.sum(1).masked_fill(scores.isnan().any(1), max(classes, 5))


def _absolute_error(outputs: Tensor, labels: Tensor) -> Tensor:
    outputs, labels = check_alike(outputs, labels)
    return (outputs - labels).abs()


def _in_first(outputs: Tensor, labels: Tensor) -> Tensor:
    return ranks(outputs, labels) < 1


def _in_five(outputs: Tensor, labels: Tensor) -> Tensor:
    return ranks(outputs, labels) < 5


def exponential(mean: float) -> float:
    """E to the power of a mean: infinite where it overflows, NaN for NaN."""
    return math.inf if mean >= 700 else math.exp(mean)


_FRACTION: dict[str, Any] = {"percent": True, "higher_is_better": True}
_TOP1 = Metric(_in_first, title="accuracy", **_FRACTION)
_TOP5 = Metric(_in_five, title="top-5 accuracy", **_FRACTION)
CLASSES = Objective(cross_entropy, {"top1": _TOP1, "top5": _TOP5})
NEXT_TOKEN = Objective(
    cross_entropy, {"perplexity": Metric(None, exponential, "perplexity"), "top1": _TOP1}
)
REGRESSION = Objective(
    squared_error,
    {
        "rmse": Metric(None, math.sqrt, "RMS error"),
        "mae": Metric(_absolute_error, title="mean absolute error"),
    },
)

OBJECTIVES: Mapping[str, Objective] = MappingProxyType(
    {"classes": CLASSES, "next_token": NEXT_TOKEN, "regression": REGRESSION}
)
"""By name: cross entropy with a class a sample, or a token a position; mean squared error."""


def objective_of(given: object, dataset: object) -> Objective:
    """The objective that a user gave by name, as a loss or whole; None for what the labels ask."""
    if given is None:
        if not isinstance(dataset, Dataset):  # as is refused with more to say than here
            return CLASSES
        if dataset.y_train.dtype.kind == "f":
            return REGRESSION
        return CLASSES if dataset.y_train.ndim == 1 else NEXT_TOKEN
    if isinstance(given, str):
        return choose("objective", given, OBJECTIVES)
    if isinstance(given, Objective):
        return given
    if not callable(given):
        raise UserError(
            f"objective is {given!r}; give one of {', '.join(OBJECTIVES)}, a loss as a function of "
            "outputs and labels, or an Objective"
        )
    return Objective(given)
