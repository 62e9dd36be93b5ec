"""Environments: what each worker computes with, and its bandwidth, both over time.

Tables 2 and 3 and the schedules of Sec. 5.2.6 (Hong and Chandra 2021). Cores become a speed by
Amdahl's law; the paper states how many there are, not how fast they train.

Deviation: "Hetero NET B" of Fig. 17 is in no table, so it is not made.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Any

from workbench.clusters import Cluster, Link, Node, Schedule, load_testbed
from workbench.clusters.schedule import OverTime
from workbench.utils.checks import (
    UserError,
    check_number,
    check_truth,
    check_whole,
    listed,
    whole,
)

Pairs = tuple[tuple[float, float], ...]
"""(start_s, value), ascending from 0 s on."""

STATED = load_testbed("dlion")
PARALLEL_SHARE: float = STATED["assumed"]["parallel_share"]
UNITS = ("cores", "GPUs")


@dataclass(frozen=True)
class Environment:
    """Computation and network of all workers.

    Parameters
    ----------
    title
        Name for charts; the paper's own for those of its tables.
    cores
        Cores (or GPUs, by `unit`) of each worker: a number, pairs of (start_s, value), or a
        `Schedule`, as which they are kept.
    mbps
        Mbit/s of each worker's interface, in either direction; in the same forms as `cores`.
    pairs_mbps
        (sender, receiver) -> Mbit/s of links of their own, within both interfaces (Table 2); other
        links are as wide as the sender's interface.
    unit
        "cores" or "GPUs".

    Raises
    ------
    ValueError
        Fewer than two workers, not one interface for each, cores or bandwidths that are not above
        0 at all times or not a legal schedule, links between other than two workers.
    """

    title: str
    cores: Sequence[OverTime]
    mbps: Sequence[OverTime]
    pairs_mbps: Mapping[tuple[int, int], float] = field(default_factory=dict)
    unit: str = "cores"

    def __post_init__(self) -> None:
        if not (isinstance(self.title, str) and self.title):
            raise UserError(f"title is {self.title!r}; give the environment a name")
        if self.unit not in UNITS:
            raise UserError(f"unit is {self.unit!r}; workers compute with {' or '.join(UNITS)}")
        each = "give one entry for each worker, such as (24, 24, 12)"
        cores, mbps = listed("cores", self.cores, each), listed("mbps", self.mbps, each)
        if len(cores) < 2 or len(cores) != len(mbps):
            raise UserError(
                f"cores of {len(cores)} workers and mbps of {len(mbps)}; give both of each worker, "
                "at least two"
            )
        for name, values, lack in (("cores", cores, self.unit), ("mbps", mbps, "bandwidth")):
            kept = tuple(
                _schedule(f"{name} of worker {worker}", value, f"worker {worker} is without {lack}")
                for worker, value in enumerate(values)
            )
            object.__setattr__(self, name, kept)
        object.__setattr__(self, "pairs_mbps", _pairs_mbps(self.pairs_mbps, len(cores)))

    @property
    def workers(self) -> int:
        """Number of workers."""
        return len(self.cores)

    def of(self, workers: int) -> Environment:
        """Return the same kind of environment with `workers` workers: these, again and again.

        So are links of their own; copies of a worker have none between them.
        """
        count = check_whole("workers", workers, 2)
        places = [place % self.workers for place in range(count)]
        pairs = {pair: (places[pair[0]], places[pair[1]]) for pair in permutations(range(count), 2)}
        return replace(
            self,
            cores=tuple(self.cores[place] for place in places),
            mbps=tuple(self.mbps[place] for place in places),
            pairs_mbps={
                pair: self.pairs_mbps[own] for pair, own in pairs.items() if own in self.pairs_mbps
            },
        )

    def cluster(
        self,
        *,
        parallel_share: float = PARALLEL_SHARE,
        link_share: float = 1.0,
        carries: float = 1.0,
        shared_interfaces: bool = True,
    ) -> Cluster:
        """Return nodes ``worker0, ...``, each linked with every other in both directions.

        A node's speed is 1 on one core. Links have neither overhead nor latency: seconds that do
        not depend on bytes are a constant of the worker's.

        Table 3's Mbit/s can be read in two ways. By default they are those of a worker's
        interface, which its links share. With ``shared_interfaces=False`` each link has them to
        itself, as in Table 2, Fig. 8 and "the available network bandwidth of the communication link
        to worker j" (Sec. 3.3): those of the end that has fewer, since Fig. 8's links of one worker
        differ by the receiver, and Table 3 gives a worker one number for both directions.

        Parameters
        ----------
        parallel_share
            In [0, 1]: see `speed_up`.
        link_share
            In (0, 1]: how much of a bandwidth messages get.
        carries
            Factor on all bandwidths. A smaller model that learns in the place of a larger one takes
            its bytes over the larger one's, so that its messages take as long.
        shared_interfaces
            Whether all links of a worker together carry its Mbit/s, or each of them.
        """
        if not 0 < check_number("link_share", link_share) <= 1:
            raise UserError(f"link_share is {link_share}; give a share above 0 and at most 1")
        if not 0 < check_number("carries", carries) < math.inf:
            raise UserError(f"carries is {carries}; give a finite factor above 0")
        check_truth("shared_interfaces", shared_interfaces)
        bps = 1e6 * link_share * carries
        interfaces = [Schedule.of(mbps) for mbps in self.mbps]
        nodes = []
        for worker, own in enumerate(self.cores):
            cores, limit = Schedule.of(own), interfaces[worker].scaled(bps, 0, math.inf)
            speeds = tuple(speed_up(value, parallel_share) for value in cores.values)
            interface = limit if shared_interfaces else None
            speed = Schedule(cores.starts_s, speeds)
            nodes.append(Node(f"worker{worker}", 1, speed, interface, interface))
        links: dict[tuple[int | str, int | str], Link] = {}
        for pair in permutations(range(self.workers), 2):
            own = self.pairs_mbps.get(pair, math.inf)
            ends = [interfaces[end] for end in (pair[:1] if shared_interfaces else pair)]
            starts_s = sorted({start_s for end in ends for start_s in end.starts_s})
            values = tuple(bps * min(own, *(end.at(at_s) for end in ends)) for at_s in starts_s)
            rate = Schedule(tuple(starts_s), values)
            links[pair] = Link(rate if rate.constant is None else rate.constant)
        return Cluster(nodes, links)


def speed_up(cores: float, parallel_share: float = PARALLEL_SHARE) -> float:
    """Speed over that of one core by Amdahl's law: 1 / ((1 - p) + p / cores).

    p is `parallel_share`.
    """
    if not 0 < check_number("cores", cores) < math.inf:
        raise UserError(f"cores is {cores}; give a finite number above 0")
    if not 0 <= check_number("parallel_share", parallel_share) <= 1:
        raise UserError(f"parallel_share is {parallel_share}; give a share from 0 to 1")
    return 1 / ((1 - parallel_share) + parallel_share / cores)


def _schedule(name: str, entry: Any, lack: str) -> Schedule:
    """Return what a worker has over time; `lack` is the error for a 0."""
    try:
        schedule = Schedule.of(entry)
    except ValueError as error:
        raise UserError(f"{name}: {error}") from None
    if min(schedule.values) <= 0:
        raise UserError(f"{lack}: {name} is {entry!r}; give some above 0, at all times")
    return schedule


def _pairs_mbps(rates: Any, workers: int) -> dict[tuple[int, int], float]:
    if not isinstance(rates, Mapping):
        raise UserError(f"pairs_mbps is {rates!r}; map pairs to Mbit/s, such as {{(0, 1): 190}}")
    checked = {}
    for pair, mbps in rates.items():
        ends = {whole(end) for end in pair} if isinstance(pair, tuple) and len(pair) == 2 else set()
        if len(ends) != 2 or not ends <= set(range(workers)):
            raise UserError(
                f"pairs_mbps has {pair!r}; give (sender, receiver), two different workers of 0 to "
                f"{workers - 1}"
            )
        if not 0 < check_number(f"pairs_mbps of {pair}", mbps) < math.inf:
            raise UserError(f"pairs_mbps of {pair} is {mbps}; give finite Mbit/s above 0")
        checked[int(pair[0]), int(pair[1])] = float(mbps)
    return checked


def _each(starts_s: Sequence[float], rows: Sequence[Sequence[Any]]) -> tuple[Pairs, ...]:
    """Pairs of each worker, of a row of all workers for each start."""
    return tuple(tuple(zip(starts_s, values, strict=True)) for values in zip(*rows, strict=True))


def _environments(stated: Mapping[str, Any]) -> dict[str, Environment]:
    machines = stated["machines"]
    full = (machines["cores"],) * machines["count"]
    lan = (machines["lan_mbps"],) * machines["count"]
    made = {}
    for name, row in stated["environments"].items():
        cores, unit = (row["gpus"], "GPUs") if "gpus" in row else (row.get("cores", full), "cores")
        made[name] = Environment(row["title"], cores, row.get("mbps", lan), unit=unit)
    phase_s = stated["dynamic"]["phase_s"]
    for name, row in stated["dynamic"]["environments"].items():
        phases = [made[phase] for phase in row["phases"]]
        starts_s = [place * phase_s for place in range(len(phases))]
        cores, mbps = (
            _each(starts_s, [[Schedule.of(value).at(0.0) for value in row] for row in rows])
            for rows in ([phase.cores for phase in phases], [phase.mbps for phase in phases])
        )
        made[name] = Environment(row["title"], cores, mbps)
    rows = list(stated["regions"].values())
    between = {(one, two): rows[one][two] for one, two in permutations(range(len(rows)), 2)}
    made["regions"] = Environment("Amazon regions", full, lan, between)
    fig19, fig20 = stated["fig19"], stated["fig20"]
    made["fig19"] = Environment(fig19["title"], _each(fig19["starts_s"], fig19["cores"]), lan)
    limit = tuple(zip(fig20["starts_s"], fig20["mbps"], strict=True))
    made["fig20"] = Environment(fig20["title"], full, (limit,) * len(full))
    return made


ENVIRONMENTS: dict[str, Environment] = _environments(STATED)
"""Table 3 by name; ``regions``, Table 2; ``fig19`` and ``fig20``, the schedules of Sec. 5.2.6."""
