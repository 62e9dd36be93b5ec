"""First weights from a seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from workbench.checks import check_whole
from workbench.names import choose
from workbench.training.repeatable import FIRST_WEIGHTS, seeded
from workbench.zoo import MODELS

if TYPE_CHECKING:
    import torch


def initialise(
    model: str | torch.nn.Module | Callable[..., torch.nn.Module], seed: int, **options: Any
) -> torch.nn.Module:
    """Return a model with weights drawn from a seed; the global generator stays where it is.

    Parameters
    ----------
    model
        Name in `workbench.zoo.MODELS`; or a function that makes a module, which is best for one's
        own; or a module, whose parts then draw their weights anew, in place, each as PyTorch
        does by default (``reset_parameters``).
    seed
        Same seed, same weights.
    **options
        For the function that makes the module: ``classes=10``.

    Raises
    ------
    workbench.names.UnknownNameError
        No such model in the zoo.
    ValueError
        No model, no seed, or a part of the module has parameters but no ``reset_parameters``.
    """
    from torch import nn

    seed = check_whole("seed", seed, 0)
    if not (isinstance(model, str) or callable(model)):  # as modules are
        raise ValueError(
            f"model is {model!r}; give the name of one in the zoo, a torch.nn.Module, or "
            "a function that makes one"
        )
    with seeded(seed, FIRST_WEIGHTS):
        if isinstance(model, nn.Module):
            _reset(model, options)
            return model
        factory = choose("model", model, MODELS).factory if isinstance(model, str) else model
        made = factory(**options)
    if not isinstance(made, nn.Module):
        raise ValueError(f"{factory!r} makes no torch.nn.Module but {type(made).__name__}")
    return made


def _reset(module: torch.nn.Module, options: dict[str, Any]) -> None:
    if options:
        raise ValueError(f"options {', '.join(options)} are for a model yet to be made")
    parts = [
        (name or type(module).__name__, part, getattr(part, "reset_parameters", None))
        for name, part in module.named_modules()
    ]
    for name, part, reset in parts:
        if reset is None and any(p is not None for p in part._parameters.values()):
            raise ValueError(
                f"{name} ({type(part).__name__}) has parameters but no reset_parameters(), so they "
                "cannot be drawn anew; give the function that makes the module instead of it"
            )
    for _, _, reset in parts:
        if reset is not None:
            reset()
