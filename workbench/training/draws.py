"""Whether the steps of a model's replicas run beside each other, or one after the other.

Beside each other run steps of models that touch nothing but themselves: those of the zoo, and what
is made of PyTorch's own layers. Of other code a user promises it (`Setup.parallel`). Dropout draws
from PyTorch's global generator: such steps can be seeded one at a time, but not beside each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from workbench.runtime.threads import GlobalGenerators
from workbench.training.evaluation import evaluate
from workbench.training.gradient import gradient_step

if TYPE_CHECKING:
    import torch

    from workbench.training.flat_model import FlatModel
    from workbench.training.setup import Setup

_KNOWN = ("torch.nn.", "workbench.zoo.")


def may_run_in_parallel(setup: Setup, flat: FlatModel) -> bool:
    """Whether steps of the model's replicas may run beside each other."""
    promised = is_known(flat.module) if setup.parallel is None else setup.parallel
    if not promised or flat.device.type != "cpu":
        return False
    data = setup.dataset
    return not draws_at_random(flat, data.x_train[:2], data.y_train[:2])


def is_known(module: torch.nn.Module) -> bool:
    """Whether a module has no code but PyTorch's and the zoo's."""
    return all(map(_is_known, module.modules()))


def _is_known(part: torch.nn.Module) -> bool:
    held = vars(part).items()
    passes = ("_forward_", "_backward_")
    hooked = any(name.startswith(passes) and "hooks" in name and value for name, value in held)
    functions = [value for _, value in held if callable(value)]  # such as an activation
    return (
        not hooked
        and type(part).__module__.startswith(_KNOWN)
        and all(f"{one.__module__}.".startswith("torch.") for one in functions)
    )


def draws_at_random(flat: FlatModel, x: NDArray[Any], y: NDArray[Any]) -> bool:
    """Whether learning from these samples, or evaluation, draws from a global generator.

    PyTorch's, NumPy's or Python's. Tried on a copy of the model; the generators' states are
    restored. Where that fails, the model counts as drawing.
    """
    generators = GlobalGenerators()
    try:
        replica = flat.replica()
        gradient_step(replica, x, y)
        evaluate(replica.module, x, y)
        return bool(generators.moved())
    except Exception:
        return True  # and the training itself will say what is wrong
    finally:
        generators.restore()
