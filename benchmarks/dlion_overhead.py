"""What the simulator adds to training on micro-clouds: Cipher on 6 workers, LeNet-5 on 16 and 64.

``python benchmarks/dlion_overhead.py`` notes once what the workers of a training compute, in which
order: gradient steps, selections, updates, merged models, evaluations. A bare loop then does the
same again, on arrays of its own, and ends with the same weights, bit for bit. `train` and the bare
loop take turns, both in one thread and with the making of the models, in CPU seconds. Status 1 if
`train` takes over 15 % more for Cipher, by the median of the rounds; the small Cipher has no bar.

Then, by the seconds of a training beside its gradient steps and evaluations: status 1 if one of 64
workers takes over 1.5 times as long for each message as one of 16, on links of their own. Where all
links of a worker share its interface, transfers of unequal sizes change each other's rates, which
costs the network's model more the more there are: a few iterations show it, without a bar.
``python benchmarks/dlion_overhead.py overhead``, or ``messages``, or ``shared`` do one of these.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, cast
from unittest import mock
from weakref import WeakKeyDictionary

import numpy as np

from workbench import training
from workbench.clusters import Link, full_mesh
from workbench.datasets import Dataset
from workbench.decentralised.learner import PeerLearner, Updates
from workbench.dlion import ENVIRONMENTS, SYSTEMS, Setup, System, Trained, train
from workbench.dlion.gradient import Gradient, Links
from workbench.dlion.part import Part, Values
from workbench.dlion.programs.program import WorkerModel, WorkerProgram
from workbench.zoo import MODELS

ROUNDS, BAR_PERCENT = 7, 15.0
CASES = {"cipher": (10, 0.8), "cipher_small": (30, 0.02)}
"""Iterations, and the seconds of one that let links carry some of a gradient, but not all."""
WORKERS, LENET_ITERATIONS, SHARED_ITERATIONS, MESSAGES_BAR = (16, 64), 25, 2, 1.5
NOTED = ("gradient", "add", "try_out", "evaluate", "snapshot", "merge")
"""What workers do with their models, beside applying their own gradients."""


def main() -> int:
    asked = sys.argv[1:] or ["overhead", "messages", "shared"]
    missed = []
    with training.fixed_threads():
        if "overhead" in asked:
            for model in CASES:
                missed += [overhead(model, system) for system in ("baseline", "dlion")]
        if "messages" in asked:
            missed += [messages(system) for system in ("baseline", "max10")]
        if "shared" in asked:
            for system in ("baseline", "max10"):
                messages(system, shared=True)
    return int(any(missed))


def images(shape: tuple[int, ...], train: int, test: int) -> Dataset:
    rng = np.random.default_rng(0)
    x_train, x_test = (rng.random((n, *shape), dtype=np.float32) for n in (train, test))
    y_train, y_test = (rng.integers(0, 10, n) for n in (train, test))
    return Dataset("random", x_train, y_train, x_test, y_test, tuple(map(str, range(10))))


def overhead(model: str, name: str) -> bool:
    """Whether the bar was missed."""
    iterations, host_s = CASES[model]
    data = images(MODELS[model].input_shape, 3_000, 60)
    setup = Setup(model, data, "hetero_net_a", iterations=iterations, host_s=host_s)
    log, learnt = noted(setup, SYSTEMS[name])
    if not np.array_equal(bare(setup, SYSTEMS[name], log), learnt.weights):
        print(f"MISSED {model}, {name}: the bare loop ends with other weights")
        return True
    ways: list[Callable[[], object]] = [
        lambda: bare(setup, SYSTEMS[name], log),
        lambda: train(setup, SYSTEMS[name], threads=1),
    ]
    bare_s, train_s = [], []
    for turn in range(ROUNDS):
        took = {way: cpu_s(ways[way]) for way in ((0, 1), (1, 0))[turn % 2]}
        bare_s.append(took[0])
        train_s.append(took[1])
    ratios = [100 * (b / a - 1) for a, b in zip(bare_s, train_s, strict=True)]
    low, percent, high = statistics.quantiles(ratios, n=4)
    has_bar = model == "cipher"
    bad = has_bar and percent > BAR_PERCENT
    sent = learnt.transfers.filter(topic="gradient")["values"].mean()
    size = learnt.weights.shape[1]
    assert isinstance(sent, float)
    print(
        f"{'MISSED' if bad else 'met   ' if has_bar else '      '} {model}, {name}, "
        f"{100 * sent / size:.0f} % of a gradient sent: bare loop {statistics.median(bare_s):.2f} "
        f"s, train {statistics.median(train_s):.2f} s of CPU, {percent:+.1f} % ({low:+.1f} to "
        f"{high:+.1f}), {f'bar {BAR_PERCENT:g} %' if has_bar else 'no bar'}; same weights",
        flush=True,
    )
    return bad


def cpu_s(run: Callable[[], object]) -> float:
    gc.collect()
    began_s = time.process_time()
    run()
    return time.process_time() - began_s


@dataclass(frozen=True)
class Call:
    """What a worker did. Parts and models are named by the place in the log that made them."""

    node: int
    what: str
    given: tuple[Any, ...] = ()
    updates: tuple[tuple[int, float], ...] = ()
    model: int | None = None


@dataclass
class Log:
    """Calls in their order, and where each part and model of another worker was made."""

    calls: list[Call] = field(default_factory=list)
    parts: WeakKeyDictionary[Part, int] = field(default_factory=WeakKeyDictionary)
    models: list[tuple[object, int]] = field(default_factory=list)
    within: bool = False

    def places(self, updates: Updates) -> tuple[tuple[int, float], ...]:
        """Where the parts in updates were made, each with its factor."""
        return tuple((self.parts[cast(Part, part)], factor) for part, factor in updates)


def noted(setup: Setup, system: System) -> tuple[Log, Trained]:
    """Train, and note what is computed."""
    log, own_learnt = Log(), WorkerProgram.learnt

    def noting(name: str) -> Callable[..., Any]:
        method = getattr(PeerLearner, name)

        @wraps(method)
        def call(self: PeerLearner, *args: Any, **kwargs: Any) -> Any:
            if log.within:
                return method(self, *args, **kwargs)
            values = [*args, *kwargs.values()]
            updates = values.pop() if name == "add" or "updates" in kwargs else ()
            model = None
            if name == "merge":
                first = values.pop(0)
                model = next(at for one, at in log.models if one is first)
            log.calls.append(Call(self.node, name, tuple(values), log.places(updates), model))
            at, log.within = len(log.calls) - 1, True
            found = method(self, *args, **kwargs)
            log.within = False
            if name == "snapshot":
                log.models.append((found, at))
            return found

        return call

    @wraps(WorkerProgram.learnt)
    def learnt_of(program: WorkerProgram) -> WorkerModel:
        """What has arrived but is not added yet counts for the weights at the end."""
        assert program.worker is not None
        left = log.places(program.worker.inbox)
        log.calls.append(Call(program.worker.node, "add", updates=left))
        log.within = True
        model = own_learnt(program)
        log.within = False
        return model

    def generate(gradient: Gradient, links: Links) -> Mapping[int, Part]:
        hook: Any = system.generate_partial_gradients
        parts: Mapping[int, Part] = hook(gradient, links)
        given = (gradient.step, gradient.iteration, links)
        log.parts.update(dict.fromkeys(parts.values(), len(log.calls)))
        log.calls.append(Call(links.node, "generate", given))
        return parts

    with ExitStack() as stack:
        for name in NOTED:
            stack.enter_context(mock.patch.object(PeerLearner, name, noting(name)))
        stack.enter_context(mock.patch.object(WorkerProgram, "learnt", learnt_of))
        learnt = train(setup, replace(system, generate_partial_gradients=generate), threads=1)
    return log, learnt


def bare(setup: Setup, system: System, log: Log) -> np.ndarray[Any, Any]:
    """Do what was noted, nothing else; the weights."""
    built: Any = setup.programs(system)
    learners, variables = [program.state.value for program in built.programs], built.job.variables
    hook: Any = system.generate_partial_gradients
    parts: dict[tuple[int, int], Part] = {}  # by the place in the log and the receiver
    models: dict[int, Any] = {}
    for at, call in enumerate(log.calls):
        learner = learners[call.node]
        if call.what == "generate":
            step, iteration, links = call.given
            values = learner.flat.gradients.numpy().view()
            values.flags.writeable = False
            gradient = Gradient(values, variables, step, iteration, no_weights)
            for peer, part in hook(gradient, links).items():
                parts[at, peer] = part
            learner.flat.parameters.add_(learner.flat.gradients, alpha=-step)
            continue
        given = call.given if call.model is None else (models[call.model], *call.given)
        if call.updates:
            updates = [(parts.pop((place, call.node)), scale) for place, scale in call.updates]
            given = (*given, updates)
        elif call.what == "add":
            continue
        found = getattr(learner, call.what)(*given)
        if call.what == "snapshot":
            models[at] = found
    return np.stack([learner.flat.parameters.numpy() for learner in learners])


def no_weights() -> Values:
    raise NotImplementedError("neither system looks at the weights")


def messages(name: str, shared: bool = False) -> bool:
    """Whether seconds for a message grow with the workers."""
    each_us, network = [], "shared interfaces" if shared else "links of their own"
    for workers in (2, *WORKERS):  # two first, who make what is made once
        setup = Setup(
            "lenet5",
            images((1, 28, 28), 64 * workers, 10),
            environment=ENVIRONMENTS["homo_a"].of(workers) if shared else None,
            cluster=None if shared else full_mesh(workers, Link(1e9)),
            iterations=SHARED_ITERATIONS if shared else LENET_ITERATIONS,
            local_batch=1,
            evaluate_every=1_000,
        )
        own_s, count = beside_steps_s(setup, SYSTEMS[name])
        if workers == 2:
            continue
        each_us.append(1e6 * own_s / count)
        print(
            f"       lenet5, {name}, {workers} workers, {network}: {own_s:.1f} s of CPU beside the "
            f"gradient steps for {count:,} messages, {each_us[-1]:.0f} us each",
            flush=True,
        )
    ratio = each_us[-1] / each_us[0]
    bad = ratio > MESSAGES_BAR and not shared
    print(
        f"{'MISSED' if bad else '      ' if shared else 'met   '} lenet5, {name}, {network}: a "
        f"message of {WORKERS[-1]} workers takes {ratio:.2f} times as long as one of {WORKERS[0]}, "
        f"{'no bar' if shared else f'bar {MESSAGES_BAR:g}'}",
        flush=True,
    )
    return bad


def beside_steps_s(setup: Setup, system: System) -> tuple[float, int]:
    """CPU seconds beside gradient steps and evaluations, and messages."""
    inside_s = 0.0

    def timed(method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal inside_s
            began_s = time.process_time()
            found = method(*args, **kwargs)
            inside_s += time.process_time() - began_s
            return found

        return call

    with (
        mock.patch(f"{PeerLearner.__module__}.gradient_step", timed(training.gradient_step)),
        mock.patch(f"{PeerLearner.__module__}.evaluate", timed(training.evaluate)),
    ):
        gc.collect()
        began_s = time.process_time()
        learnt = train(setup, system, threads=1)
        took_s = time.process_time() - began_s
    return took_s - inside_s, len(learnt.transfers)


if __name__ == "__main__":
    sys.exit(main())
