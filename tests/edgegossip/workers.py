"""Workers of a job within one process, a step of each in turn."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from workbench.edgegossip.prediction.map_reduce import Job, Task
from workbench.edgegossip.prediction.shuffle import Peers


@contextlib.contextmanager
def met(count: int) -> Iterator[list[Peers]]:
    """Peers that know each other."""
    with contextlib.ExitStack() as ending:
        peers = [ending.enter_context(Peers()) for _ in range(count)]
        for one in peers:
            one.meet([other.port for other in peers])
        yield peers


def run(job: Job, size_bytes: int, workers: int, folder: Path) -> list[bytes]:
    """Return the outcome at each worker of a job whose share is `size_bytes` at each."""
    outcomes: dict[int, bytes] = {}
    with met(workers) as peers, contextlib.ExitStack() as ending:
        running = {}
        for peer in peers:
            own = Path(ending.enter_context(TemporaryDirectory(dir=folder)))
            shuffle = partial(peer.exchange, (0, 0))
            running[peer.number] = job(Task(size_bytes, peer.number, workers, own, shuffle))
        while running:
            for number, steps in list(running.items()):
                try:
                    last = next(steps)
                except StopIteration:
                    del running[number]
                    continue
                if last is not None:
                    outcomes[number] = last.read_bytes()
    return [outcomes[number] for number in range(workers)]
