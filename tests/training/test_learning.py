"""Real data are learnt, through every part at once."""

from __future__ import annotations

from tests.datasets.conftest import REAL
from workbench import datasets, training


def test_lenet5_learns_handwritten_digits() -> None:
    """MNIST where it is present, scikit-learn's digits elsewhere: the same bar for both."""
    real = (REAL / "MNIST/raw").is_dir()
    data = datasets.load("mnist", folder=REAL) if real else datasets.load("digits")
    data = data.limit(train=1400, test=350).fitted((1, 28, 28))
    with training.fixed_threads():
        flat = training.flatten(training.initialise("lenet5", 0), data.input_shape)
        sgd = training.Sgd(0.05, momentum=0.9)
        velocity = sgd.start(flat.parameters)
        before = training.evaluate(flat.module, data.x_test, data.y_test)
        for epoch in range(3):
            for batch in training.batches(data, 32, 0, epoch):
                training.gradient_step(flat, data.x_train[batch], data.y_train[batch])
                sgd.step(flat.parameters, flat.gradients, velocity)
        after = training.evaluate(flat.module, data.x_test, data.y_test)
    assert before.top1 < 0.3
    assert after.top1 > 0.85
    assert after.top5 > 0.97
    assert after.loss < before.loss / 3
