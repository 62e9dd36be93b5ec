"""What cannot be is refused at the call that it was given to, in the caller's terms."""

# mypy: disable-error-code="arg-type, call-arg, list-item"

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch import nn

from workbench.training import Sgd, batches, evaluate, flatten, gradient_step, initialise

X, Y = np.zeros((2, 4), np.float32), np.zeros(2, np.int64)


@pytest.mark.parametrize("name", ["learning_rate", "momentum", "weight_decay"])
@pytest.mark.parametrize("given", ["0.1", None, True, [0.1]], ids=repr)
def test_a_rate_is_a_number(name: str, given: Any) -> None:
    values: dict[str, Any] = {"learning_rate": 0.1, name: given}
    with pytest.raises(ValueError, match=rf"{name} is .*; give a number"):
        Sgd(**values)


@pytest.mark.parametrize("given", ["no", 1, None])
def test_nesterov_is_true_or_false(given: Any) -> None:
    with pytest.raises(ValueError, match=f"nesterov is {given!r}; give True or False"):
        Sgd(0.1, momentum=0.9, nesterov=given)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"samples": "digits"}, "samples, a Dataset or their number, is 'digits'; it must be a wh"),
        ({"samples": 10.5}, "samples, a Dataset or their number, is 10.5"),
        ({"batch_size": 2.5}, "batch_size is 2.5; it must be a whole number of at least 1"),
        ({"batch_size": "2"}, "batch_size is '2'"),
        ({"batch_size": True}, "batch_size is True"),
        ({"seed": None}, "seed is None; it must be a whole number of at least 0"),
        ({"seed": 1.5}, "seed is 1.5"),
        ({"epoch": "x"}, "epoch is 'x'"),
        ({"worker": 0.5, "workers": 2}, "worker is 0.5"),
        ({"workers": "2"}, "workers is '2'"),
    ],
)
def test_batches_are_counted(options: dict[str, Any], message: str) -> None:
    usual: dict[str, Any] = {"samples": 10, "batch_size": 2, "seed": 0, "epoch": 0}
    with pytest.raises(ValueError, match=message):
        batches(**{**usual, **options})


def test_numpys_counts_are_counts() -> None:
    ours = batches(np.int64(10), np.int32(3), np.uint8(1), np.int64(0))
    assert [one.tolist() for one in ours] == [one.tolist() for one in batches(10, 3, 1, 0)]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: initialise("lenet5", "x"), "seed is 'x'; it must be a whole number of at least 0"),
        (lambda: initialise("lenet5", None), "seed is None"),
        (lambda: initialise("lenet5", -1), "seed is -1; it must be a whole number of at least 0"),
        (lambda: initialise(5, 1), "model is 5; give the name of one in the zoo, a torch.nn.Mod"),
        (lambda: initialise(None, 1), "model is None; give the name of one in the zoo"),
        (lambda: evaluate("lenet5", X, Y), "model is of type str; give a torch.nn.Module, such as"),
        (lambda: evaluate(nn.Linear(4, 2), None, Y), "x is None; give an array or tensor, a row"),
        (lambda: evaluate(nn.Linear(4, 2), X, 5), "y is 5; give an array or tensor, a row"),
        (lambda: evaluate(nn.Linear(4, 2), [[1.0]], [1]), r"x is \[\[1.0\]\]; give an array or"),
        (lambda: evaluate(nn.Linear(4, 2), X, Y, "x"), "batch_size is 'x'; it must be a whole"),
        (lambda: evaluate(nn.Linear(4, 2), X, Y, 2.5), "batch_size is 2.5; it must be a whole"),
        (lambda: gradient_step(None, X, Y), r"flat is of type NoneType; give training.flatten\("),
        (lambda: gradient_step(nn.Linear(4, 2), X, Y), "flat is of type Linear; give training.fl"),
        (lambda: gradient_step(flatten(nn.Linear(4, 2), (4,)), None, Y), "x is None; give an arr"),
        (lambda: gradient_step(flatten(nn.Linear(4, 2), (4,)), X, Y, seed="x"), "seed is 'x'; it"),
    ],
)
def test_something_else_is_refused(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
