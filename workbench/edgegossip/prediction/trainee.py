"""The training whose time is predicted: LeNet-5 on digits, one thread, a process of its own."""

from __future__ import annotations

import os
import select
import time

from workbench import datasets, training

BATCH_SIZE = 32


def serve(requests: int = 0) -> None:
    """Train until standard input ends.

    Each byte that comes is answered by a line, at the end of a step: samples learnt from so far,
    and the seconds of a clock that goes on steadily.
    """
    digits = datasets.load("digits").fitted((1, 28, 28))
    samples, epoch = 0, 0
    with training.fixed_threads():
        flat = training.flatten(training.initialise("lenet5", seed=0), (1, 28, 28))
        sgd = training.Sgd(learning_rate=0.01, momentum=0.9)
        velocity = sgd.start(flat.parameters)
        while True:
            for batch in training.batches(digits, BATCH_SIZE, seed=0, epoch=epoch):
                training.gradient_step(flat, digits.x_train[batch], digits.y_train[batch])
                sgd.step(flat.parameters, flat.gradients, velocity)
                samples += len(batch)
                if select.select([requests], [], [], 0)[0]:
                    if not os.read(requests, 1):
                        return
                    print(samples, time.perf_counter(), flush=True)
            epoch += 1


if __name__ == "__main__":
    serve()
