"""A process in the place of a training, quicker to start: it imports nothing of PyTorch."""

import sys
import time


def learn_nothing() -> None:
    """Answer each line as `train_lenet` does: more samples than before, and the seconds."""
    for samples, _ in enumerate(sys.stdin):
        print(samples, time.perf_counter(), flush=True)
