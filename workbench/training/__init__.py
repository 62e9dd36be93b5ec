"""Training, as all systems share it: gradients, steps, evaluation, and the shell around them.

>>> from workbench import datasets, training
>>> digits = datasets.load("digits").fitted((1, 28, 28))
>>> with training.fixed_threads():
...     flat = training.flatten(training.initialise("lenet5", seed=0), (1, 28, 28))
...     sgd = training.Sgd(learning_rate=0.1, momentum=0.9)
...     velocity = sgd.start(flat.parameters)
...     for batch in training.batches(digits, 32, seed=0, epoch=0):
...         loss = training.gradient_step(flat, digits.x_train[batch], digits.y_train[batch])
...         sgd.step(flat.parameters, flat.gradients, velocity)
...     result = training.evaluate(flat.module, digits.x_test, digits.y_test)
>>> result.samples
355

The same seed gives the same weights, bit for bit, in any process and on any x86 machine with AVX2:
numbers are drawn from generators of their own, `fixed_threads` keeps PyTorch from splitting sums
differently, and commands that reproduce fix its kernels (`workbench.utils.instruction_set`).
Another PyTorch may round differently. PyTorch itself is imported when one of these functions needs
it.
"""

from workbench.training.batches import batches
from workbench.training.evaluation import Evaluation, accumulate, evaluate, gradient_step
from workbench.training.flat_model import (
    FlatModel,
    Layout,
    average_buffers,
    flatten,
    get_buffers,
    model_layout,
    set_buffers,
)
from workbench.training.models import initialise
from workbench.training.objective import (
    CLASSES,
    NEXT_TOKEN,
    OBJECTIVES,
    REGRESSION,
    Loss,
    Metric,
    Objective,
)
from workbench.training.pieces import Pieces, cut
from workbench.training.quantise import Quantised, quantise
from workbench.training.repeatable import fixed_threads, generator, seeded
from workbench.training.setup import Setup, WholeBatches
from workbench.training.sgd import Sgd
from workbench.training.shell import (
    OneModel,
    Programs,
    RunOptions,
    Standing,
    Trainable,
    check_losing_nothing,
    run,
    train,
)
from workbench.training.trained import DivergedError, Epochs, Trained, TrainingError

__all__ = [
    "CLASSES",
    "NEXT_TOKEN",
    "OBJECTIVES",
    "REGRESSION",
    "DivergedError",
    "Epochs",
    "Evaluation",
    "FlatModel",
    "Layout",
    "Loss",
    "Metric",
    "Objective",
    "OneModel",
    "Pieces",
    "Programs",
    "Quantised",
    "RunOptions",
    "Setup",
    "Sgd",
    "Standing",
    "Trainable",
    "Trained",
    "TrainingError",
    "WholeBatches",
    "accumulate",
    "average_buffers",
    "batches",
    "check_losing_nothing",
    "cut",
    "evaluate",
    "fixed_threads",
    "flatten",
    "generator",
    "get_buffers",
    "gradient_step",
    "initialise",
    "model_layout",
    "quantise",
    "run",
    "seeded",
    "set_buffers",
    "train",
]
