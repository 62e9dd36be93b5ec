"""Work on several threads at once: the same results, times and errors for any number of them."""

from __future__ import annotations

import gc
import pickle
import random
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.other_process import printed
from workbench.clusters import Cluster, Link, Node, full_mesh
from workbench.runtime import (
    Context,
    Crash,
    Message,
    Program,
    ProgramError,
    Restart,
    Run,
    Synchronized,
    simulate,
)
from workbench.runtime.simulation import Simulation
from workbench.runtime.threads import THREADS_VARIABLE, thread_count
from workbench.utils.checks import UserError

LINK = Link(8e6, overhead_s=0.001)


class State:
    """A number that work changes slowly enough for others to come in between."""

    def __init__(self) -> None:
        self.number = 1
        self.threads: set[str] = set()

    def step(self, add: int) -> int:
        self.threads.add(threading.current_thread().name)
        before = self.number
        time.sleep(0.0005)
        self.number = before * 3 % 1_000_003 + add
        return self.number

    def fail(self) -> None:
        time.sleep(0.001)
        raise KeyError("diverged")


def states_of(count: int, *, parallel: bool = True) -> list[Synchronized[State]]:
    return [Synchronized(State(), parallel=parallel) for _ in range(count)]


def numbers(states: list[Synchronized[State]]) -> list[int]:
    return [state.value.number for state in states]


def cluster_of(count: int, cores: int = 1) -> Cluster:
    return Cluster([Node(f"n{at}", cores=cores) for at in range(count)])


def stepping(states: list[Synchronized[State]], count: int = 3, cost_s: float = 1.0) -> Program:
    """Several steps of a node's state."""

    async def program(context: Context) -> None:
        for _ in range(count):
            step = partial(State.step, add=1)
            await context.compute(step, cost_s=cost_s, on=states[context.node])

    return program


def exchange(states: list[Synchronized[State]], costs_s: list[float]) -> list[Program]:
    """Steps, each followed by sending the state to the next; the other's is added to the own."""

    async def program(context: Context) -> list[int]:
        own, found = states[context.node], []
        for round_ in range(4):
            step = partial(State.step, add=round_)
            found.append(await context.compute(step, cost_s=costs_s[context.node], on=own))
            to = (context.node + 1) % len(states)
            context.send(to, Message(context.node, "state", own.value.number, 1e3))
            if context.random.random() < 0.7:
                own.value.number += (await context.receive(timeout_s=2.0)).payload
        return found

    async def forgiving(context: Context) -> list[int]:
        try:
            return await program(context)
        except TimeoutError:
            return []

    return [forgiving] * len(states)


def ran(costs_s: list[float], threads: int, **options: Any) -> tuple[Any, ...]:
    states = states_of(len(costs_s))
    cluster = full_mesh(len(costs_s), LINK)
    run = simulate(cluster, exchange(states, costs_s), trace=True, threads=threads, **options)
    assert run.trace is not None
    return run.results, run.end_s, run.events, run.trace.frame.rows(), numbers(states)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.5]), min_size=1, max_size=5), st.booleans())
def test_the_number_of_threads_changes_nothing(costs_s: list[float], crashes: bool) -> None:
    faults = [Crash(0, 1.25), Restart(0, 2.5)] if crashes else []
    until_s = 2.75 if len(costs_s) % 2 else None
    one, two, five = (ran(costs_s, count, faults=faults, until_s=until_s) for count in (1, 2, 5))
    assert one == two == five


def test_work_of_different_nodes_runs_at_once() -> None:
    """Each waits for the other, which in one thread would never come."""

    class Meeting:
        barrier = threading.Barrier(2, timeout=30)

        def meet(self) -> int:
            return self.barrier.wait()

    async def program(context: Context) -> int:
        return await context.compute(Meeting.meet, cost_s=1, on=states[context.node])

    states = [Synchronized(Meeting(), parallel=True) for _ in range(2)]
    run = simulate(cluster_of(2), [program] * 2, threads=2)
    assert sorted(run.results.values()) == [0, 1]


class Product:
    """A product of matrices, and in which thread it was made."""

    def __init__(self) -> None:
        draws = torch.Generator().manual_seed(0)
        self.x, self.y = (torch.randn(size, generator=draws) for size in ((64, 400), (400, 120)))

    def made(self) -> tuple[bytes, int]:
        return (self.x @ self.y).numpy().tobytes(), threading.get_ident()


def products() -> set[tuple[bytes, int]]:
    """Of the first work of new threads, each limited to one of PyTorch's, and of this one."""

    async def node(context: Context) -> tuple[bytes, int]:
        return await context.compute(
            Product.made, cost_s=1, on=Synchronized(Product(), parallel=True)
        )

    torch.set_num_threads(1)
    found = simulate(full_mesh(2, Link(8e6)), [node, node], threads=2).results
    return {Product().made(), *found.values()}


def test_new_threads_round_as_the_first_does() -> None:
    """PyTorch limits the thread that asks; another one's first product was split among all."""
    code = f"from {__name__} import products as p; found = p(); "
    code += "print(len({bits for bits, _ in found}), len({thread for _, thread in found}) > 1)"
    assert printed(code, OMP_NUM_THREADS="4").split() == ["1", "True"]


@pytest.mark.parametrize(
    ("nodes", "threads", "parallel"),
    [(1, 4, True), (3, 1, True), (3, 3, False)],
    ids=["a single node", "a single thread", "no promise"],
)
def test_work_stays_in_the_main_thread(nodes: int, threads: int, parallel: bool) -> None:
    states = states_of(nodes, parallel=parallel)
    simulate(cluster_of(nodes), [stepping(states)] * nodes, threads=threads)
    assert {name for state in states for name in state.value.threads} == {"MainThread"}


@pytest.mark.parametrize("threads", [1, 3])
def test_a_failure_comes_when_its_seconds_are_over(threads: int) -> None:
    async def fails(context: Context) -> None:
        await context.compute(State.fail, cost_s=2, on=states[context.node])

    states = states_of(3)
    steps = stepping(states, 5, 0.75)
    with pytest.raises(ProgramError, match=r"n1 \(node 1\) failed at 2 s: KeyError") as caught:
        simulate(cluster_of(3), [steps, fails, steps], trace=True, threads=threads)
    assert caught.value.run.trace is not None
    assert len(caught.value.run.trace.frame) == 4
    one = State()
    for _ in range(3):  # the third has begun
        one.step(1)
    assert states[0].value.number == states[2].value.number == one.number


@pytest.mark.parametrize("threads", [1, 3])
def test_whoever_looks_at_the_state_sees_the_work_done(threads: int) -> None:
    """A task in the midst of the work's seconds, as if the work had been done at once."""

    async def program(context: Context) -> list[int]:
        own, seen = states[context.node], []

        async def look() -> None:
            await context.sleep(0.5)
            seen.append(own.value.number)

        context.spawn(look())
        await context.compute(partial(State.step, add=4), cost_s=1, on=own)
        return seen

    states = states_of(3)
    run = simulate(cluster_of(3), [program] * 3, threads=threads)
    assert list(run.results.values()) == [[7]] * 3


@pytest.mark.parametrize("threads", [1, 3])
def test_two_cores_step_one_state_in_the_order_in_which_they_began(threads: int) -> None:
    async def program(context: Context) -> None:
        own = states[context.node]
        tasks = [
            context.spawn(context.compute(partial(State.step, add=add), cost_s=cost_s, on=own))
            for add, cost_s in ((1, 2.0), (2, 1.0))
        ]
        for task in tasks:
            await task

    states = states_of(2)
    simulate(cluster_of(2, cores=2), [program] * 2, threads=threads)
    assert numbers(states) == [(1 * 3 + 1) * 3 + 2] * 2


class Draws:
    """Counts, and draws a random number whenever the count is that of `when`."""

    def __init__(self, draw: Callable[[], object], when: int) -> None:
        self.draw, self.when, self.steps = draw, when, 0

    def step(self) -> int:
        self.steps += 1
        if self.steps == self.when:
            self.draw()
        return self.steps


GENERATORS: dict[str, Callable[[], object]] = {
    "Python": random.random,
    "NumPy": np.random.rand,
    "PyTorch": lambda: torch.rand(1),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("when", [1, 30, 40])
@pytest.mark.parametrize("name", GENERATORS)
def test_parallel_work_draws_from_no_global_generator(name: str, when: int, threads: int) -> None:
    def run(parallel: bool) -> Run:
        states = [Synchronized(Draws(GENERATORS[name], when), parallel=parallel) for _ in range(2)]

        async def program(context: Context) -> None:
            for _ in range(40):
                await context.compute(Draws.step, cost_s=1, on=states[context.node])

        return simulate(full_mesh(2, LINK), [program] * 2, threads=threads)

    assert run(parallel=False).ended == "done"
    with pytest.raises(
        ProgramError, match=f"global generator of {name} in a run .* without parallel=True"
    ) as caught:
        run(parallel=True)
    assert isinstance(caught.value.__cause__, UserError)


def seeded_and_drawn(state: State) -> float:
    del state
    np.random.seed(0)  # noqa: NPY002
    return np.random.rand()  # noqa: NPY002


@pytest.mark.parametrize("seeded_before", [False, True])
def test_work_that_seeds_a_global_generator_each_time_is_told(seeded_before: bool) -> None:
    async def program(context: Context) -> None:
        own = Synchronized(State(), parallel=True)
        for _ in range(3):
            await context.compute(seeded_and_drawn, cost_s=1, on=own)

    if seeded_before:
        seeded_and_drawn(State())  # the state that all work leaves
    before = pickle.dumps(np.random.get_state())  # noqa: NPY002
    with pytest.raises(ProgramError, match="global generator of NumPy"):
        simulate(full_mesh(2, LINK), [program] * 2, threads=1)
    assert pickle.dumps(np.random.get_state()) == before  # noqa: NPY002


def test_what_user_code_draws_before_and_between_runs_is_its_own() -> None:
    simulation = Simulation(full_mesh(2, LINK), [stepping(states_of(2), 2)] * 2, threads=2)
    for until_s in (0.5, 1.5, None):
        random.random()
        run = simulation.run(until_s)
    simulation.close()
    assert run.ended == "done"


async def _is_async(state: State) -> None:
    """Awaits nothing."""


@pytest.mark.parametrize(
    ("work", "on", "message"),
    [
        (_is_async, Synchronized(1), "made a coroutine; give a plain function"),
        (lambda: None, Synchronized(2), "takes 0 positional arguments"),
        (State.step, State(), r"as `on`; give Synchronized\(state\)"),
    ],
)
def test_work_that_is_no_function_of_its_state_is_refused(work: Any, on: Any, message: str) -> None:
    async def program(context: Context) -> None:
        await context.compute(work, cost_s=1, on=on)

    with pytest.raises(ProgramError, match=message):
        simulate(cluster_of(1), [program])


def test_a_state_travels_as_its_work_leaves_it() -> None:
    held = Synchronized([1], parallel=True)
    held.prepare(lambda state: state.append(2))
    copy = pickle.loads(pickle.dumps(held))
    assert (copy.value, copy.parallel) == ([1, 2], True)
    assert held.value == [1, 2]


def test_a_state_is_held_once() -> None:
    state = State()
    held = Synchronized(state)
    with pytest.raises(ValueError, match="two Synchronized hold the same State"):
        Synchronized(state)
    del held
    gc.collect()
    assert Synchronized(state).value is state
    assert Synchronized(1).value == Synchronized(1).value


@pytest.mark.parametrize("threads", [1, 2])
def test_work_that_looks_at_a_synchronized_state_is_refused(threads: int) -> None:
    """Two that wait for each other would wait for ever."""
    states = states_of(2)

    def look(_: State, other: Synchronized[State]) -> int:
        time.sleep(0.01)
        return other.value.number

    async def program(context: Context) -> None:
        own, other = states[context.node], states[1 - context.node]
        await context.compute(partial(look, other=other), cost_s=1, on=own)

    with pytest.raises(ProgramError, match="work looks at a Synchronized state"):
        simulate(cluster_of(2), [program] * 2, threads=threads)


def test_ctrl_c_leaves_each_state_whole() -> None:
    """Work that has begun is done when the run is over, as if it had been done at once."""

    async def interrupts(context: Context) -> None:
        await context.sleep(1.5)
        raise KeyboardInterrupt

    for threads in (1, 3):
        states = states_of(3)
        programs = [*[stepping(states)] * 3, interrupts]
        whole = Simulation(cluster_of(4), programs, threads=threads)
        assert whole.run().interrupted
        assert numbers(states) == [13] * 3
        whole.close()
        assert not [one for one in threading.enumerate() if one.name.startswith("workbench")]


def test_as_many_threads_as_cores_unless_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(THREADS_VARIABLE, "3")
    assert (thread_count(), thread_count(2)) == (3, 2)
    monkeypatch.setenv(THREADS_VARIABLE, "many")
    with pytest.raises(ValueError, match=f"{THREADS_VARIABLE} is 'many'; it must be a whole"):
        thread_count()
    monkeypatch.delenv(THREADS_VARIABLE)
    assert thread_count() >= 1
