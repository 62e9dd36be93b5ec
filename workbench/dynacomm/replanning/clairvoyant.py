"""The fastest plans for a link whose future is known: the bound of every re-planning.

Bytes flow at the bandwidth of their moment, so a transmission that starts earlier never ends later,
and neither does an iteration under the same plan. The fastest plan of the coming iteration is
therefore the best for all that follow, too.

Both directions are solved over the bits that a link has carried since 0, ``served``, in which a
transmission is a difference: layers j+1..k take ``sent[k] - sent[j]``. The worth of a choice then
does not depend on the layer it is made for, and each layer's best is the head of a queue.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

from workbench.clusters import Link, Schedule
from workbench.dynacomm.algorithms.dynacomm import dynacomm
from workbench.dynacomm.costs.iteration import FloatArray, LayerCosts
from workbench.dynacomm.costs.plan import Plan, runs
from workbench.dynacomm.programs.job import Job
from workbench.dynacomm.programs.worker_and_server import Observed
from workbench.utils.checks import UserError

WITHIN_S = 1e-6
"""How much slower than the fastest a clairvoyant plan may be, in each direction."""


@dataclass(frozen=True)
class KnownLink:
    """One direction of a link over time."""

    bandwidth_bps: Schedule
    overhead_s: float  # before the bytes of each transmission flow

    @classmethod
    def of(cls, link: Link) -> KnownLink:
        """One direction of `link`, without what tensors weigh on it, which is the job's."""
        return cls(Schedule.of(link.bandwidth_bps), link.overhead_s)

    @cached_property
    def _served_bits(self) -> list[float]:
        """Bits carried from 0 to the start of each piece."""
        starts_s, values = self.bandwidth_bps.starts_s, self.bandwidth_bps.values
        pieces = zip(pairwise(starts_s), values, strict=False)
        return list(accumulate(((b - a) * value for (a, b), value in pieces), initial=0.0))

    def served(self, at_s: float) -> float:
        """Bits carried from 0 to a time; before 0 at the first bandwidth, so negative."""
        starts_s, values = self.bandwidth_bps.starts_s, self.bandwidth_bps.values
        piece = max(0, bisect_right(starts_s, at_s) - 1)
        return self._served_bits[piece] + (at_s - starts_s[piece]) * values[piece]

    def end_s(self, start_s: float, bits: float) -> float:
        """When a transmission ends that starts at `start_s`."""
        flows_s = start_s + self.overhead_s
        if bits <= 0:
            return flows_s
        return flows_s + self.bandwidth_bps.seconds_for(bits, flows_s)

    def start_s(self, end_s: float, bits: float) -> float:
        """Latest start of a transmission that ends by `end_s`; minus infinity: none."""
        if bits <= 0:
            return end_s - self.overhead_s
        upto = self.served(end_s) - bits
        if upto < 0:
            return float("-inf")
        piece = bisect_right(self._served_bits, upto) - 1
        value = self.bandwidth_bps.values[piece]
        flows_s = self.bandwidth_bps.starts_s[piece] + (upto - self._served_bits[piece]) / value
        return min(flows_s, end_s) - self.overhead_s


@dataclass(frozen=True)
class Clairvoyant:
    """Every iteration's fastest plan, for one worker alone with one server at speed 1.

    A true bound: no choice of plans ends the training earlier by more than `WITHIN_S` for each
    direction of an iteration, since an iteration that ends earlier never makes the next end later,
    and all plans are searched.

    Deviation: planning takes no time.
    """

    job: Job
    pull: Link  # from the server, its schedule included
    push: Link  # to the server
    planning_s: float = 0.0

    def __post_init__(self) -> None:
        for link in (self.pull, self.push):
            if link.latency_s or (link.tensor_s and self.job.tensors):
                raise UserError(
                    f"the link has latency_s {link.latency_s} and tensor_s {link.tensor_s}; a "
                    "clairvoyant plan knows bandwidth and overhead only, so both must be 0"
                )

    @cached_property
    def links(self) -> tuple[KnownLink, KnownLink]:
        """From the server, and to it."""
        return KnownLink.of(self.pull), KnownLink.of(self.push)

    def begin(self) -> tuple[float, Plan]:
        """End of the first iteration, and its plan."""
        return self._from(0.0)

    def step(self, state: float, *_: int | float | Observed) -> tuple[float, Plan]:
        """End of the coming iteration, and its plan; `state` is its start."""
        return self._from(state)

    def _from(self, start_s: float) -> tuple[float, Plan]:
        pull, push = self.links
        usual = self._levelled(start_s)
        plan = fastest(self.job, pull, push, start_s=start_s, within_s=WITHIN_S, usual=usual)
        return timed(self.job, pull, push, plan, start_s) + self.job.aggregation_s, plan

    def _levelled(self, start_s: float) -> Plan:
        """Optimal plan for the mean bandwidth."""
        pull, push = self.links
        job, span_s = self.job, float(self.job.forward_s.sum() + self.job.backward_s.sum())
        span_s += self.pull.overhead_s + self.push.overhead_s
        means = [
            max(1.0, (link.served(start_s + span_s) - link.served(start_s)) / span_s)
            for link in (pull, push)
        ]
        return dynacomm(
            LayerCosts(
                job.pull_bytes * 8 / means[0],
                job.forward_s,
                job.backward_s,
                job.push_bytes * 8 / means[1],
                (pull.overhead_s + push.overhead_s) / 2,
            )
        )


def timed(job: Job, pull: KnownLink, push: KnownLink, plan: Plan, start_s: float) -> float:
    """When an iteration that starts at `start_s` ends: its last push has arrived."""
    done_s = forward_end_s(job, pull, plan.forward_cuts, start_s)
    return backward_end_s(job, push, plan.backward_cuts, done_s)


def forward_end_s(job: Job, pull: KnownLink, cuts: Sequence[int], start_s: float) -> float:
    """When the forward computation ends if the pulls begin at `start_s`."""
    sent_s = done_s = start_s
    for first, last in runs(cuts, job.layers):
        sent_s = pull.end_s(sent_s, 8 * float(job.pull_bytes[first - 1 : last].sum()))
        done_s = max(done_s, sent_s) + float(job.forward_s[first - 1 : last].sum())
    return done_s


def backward_end_s(job: Job, push: KnownLink, cuts: Sequence[int], start_s: float) -> float:
    """When the last push has arrived if the backward computation begins at `start_s`."""
    sent_s = done_s = start_s
    for first, last in runs(cuts, job.layers)[::-1]:
        done_s += float(job.backward_s[first - 1 : last].sum())
        bits = 8 * float(job.push_bytes[first - 1 : last].sum())
        sent_s = push.end_s(max(sent_s, done_s), bits)
    return sent_s


def fastest(
    job: Job, pull: KnownLink, push: KnownLink, *, start_s: float, within_s: float, usual: Plan
) -> Plan:
    """Plan whose iteration ends first, to `within_s` in each direction.

    The backward computation starts when the forward one ends, so each is minimised for itself.
    Where the `usual` plan is as good, its cuts are kept.

    Deviation: a layer of no bytes at a bandwidth of 0 may be sent later than possible, and a plan
    that fills a link to the very bit before an outage may be missed.
    """
    cuts = forward_cuts(job, pull, start_s, within_s, usual.forward_cuts)
    done_s = forward_end_s(job, pull, cuts, start_s)
    best = backward_cuts(job, push, done_s)
    best_s, usual_s = (
        backward_end_s(job, push, those, done_s) for those in (best, usual.backward_cuts)
    )
    return Plan(cuts, usual.backward_cuts if usual_s <= best_s + within_s else best)


def forward_cuts(
    job: Job, pull: KnownLink, start_s: float, within_s: float, usual: tuple[int, ...]
) -> tuple[int, ...]:
    """Bisect between a duration that is met and one that no plan undercuts."""
    usual_s = upper_s = forward_end_s(job, pull, usual, start_s)
    cuts = usual
    left_s, sent = _left(job.forward_s), _sent(job.pull_bytes)
    lower_s = max(
        pull.end_s(start_s, bits) + behind_s
        for bits, behind_s in zip(sent[1:], left_s, strict=False)
    )
    while upper_s - lower_s > within_s / 2:
        middle_s = lower_s + (upper_s - lower_s) / 2
        if not lower_s < middle_s < upper_s:
            break
        in_time = _in_time(pull, left_s, sent, start_s, middle_s)
        if in_time is None:
            lower_s = middle_s
        else:
            cuts, upper_s = in_time, middle_s
    return usual if usual_s <= upper_s + within_s / 2 else cuts


def _in_time(
    pull: KnownLink, left_s: list[float], sent: list[float], start_s: float, deadline_s: float
) -> tuple[int, ...] | None:
    """Cuts with which the forward computation ends by a deadline; None if there are none.

    ``must_s[k]`` is the latest moment to begin to pull layers k+1..L, from the last layer back.
    A segment that ends behind m must be there by ``must_s[m]``, worth ``served - sent[m]``, and
    in time to compute all layers behind k, worth the less the longer it is.
    """
    layers = len(sent) - 1
    must_s, ends, worth = [float("inf")] * (layers + 1), [layers] * (layers + 1), [0.0] * layers
    queue: deque[int] = deque()  # by falling worth, the best first
    slack = layers  # first m whose followers need not wait for it: must_s[m] >= by_s
    for cut in range(layers - 1, -1, -1):
        by_s = deadline_s - left_s[cut]
        while slack > cut + 1 and must_s[slack - 1] >= by_s:
            slack -= 1
        while queue and queue[0] >= slack:
            queue.popleft()
        end, at_s = slack, by_s
        if queue and worth[queue[0]] >= pull.served(by_s) - sent[slack]:
            end, at_s = queue[0], must_s[queue[0]]
        must_s[cut], ends[cut] = pull.start_s(at_s, sent[end] - sent[cut]), end
        if must_s[cut] < start_s:
            return None
        worth[cut] = pull.served(must_s[cut]) - sent[cut]
        while queue and worth[queue[-1]] <= worth[cut]:
            queue.pop()
        queue.append(cut)
    return tuple(_followed(ends, 0, layers))


def backward_cuts(job: Job, push: KnownLink, start_s: float) -> tuple[int, ...]:
    """Cuts with which the last push arrives first, if the computation begins at `start_s`.

    ``sent_s[m]`` is when the gradients of the last m layers have arrived at the earliest: Eq. (14)
    without its third index, for an earlier arrival is never worse. A push that follows on the last
    m layers costs ``served - sent[m]``, or starts as soon as its own layers are computed.
    """
    layers = job.layers
    sent = _sent(job.push_bytes[::-1])
    done_s = [start_s + seconds for seconds in _sent(job.backward_s[::-1], 1.0)]
    sent_s, begins, cost = [start_s] * (layers + 1), [0] * (layers + 1), [0.0] * (layers + 1)
    queue: deque[int] = deque()  # by rising cost, the best first
    free = 0  # last m whose push is over when the next may begin
    for upto in range(1, layers + 1):
        while free + 1 < upto and sent_s[free + 1] <= done_s[upto]:
            free += 1
        while queue and queue[0] <= free:
            queue.popleft()
        begin, from_s = free, done_s[upto]
        if queue and cost[queue[0]] < push.served(from_s + push.overhead_s) - sent[free]:
            begin, from_s = queue[0], sent_s[queue[0]]
        sent_s[upto] = push.end_s(from_s, sent[upto] - sent[begin])
        begins[upto] = begin
        cost[upto] = push.served(sent_s[upto] + push.overhead_s) - sent[upto]
        while queue and cost[queue[-1]] >= cost[upto]:
            queue.pop()
        queue.append(upto)
    return tuple(layers - upto for upto in _followed(begins, layers, 0))


def _followed(steps: Sequence[int], start: int, end: int) -> list[int]:
    """Cuts along the steps from `start`, before `end`."""
    cuts, at = [], steps[start]
    while at != end:
        cuts.append(at)
        at = steps[at]
    return cuts


def _sent(sizes: FloatArray, bits: float = 8.0) -> list[float]:
    """Running sum from 0, in bits."""
    return [0.0, *accumulate((sizes * bits).tolist())]


def _left(seconds: FloatArray) -> list[float]:
    """Sum of what comes behind each of 0..L."""
    return _sent(seconds[::-1], 1.0)[::-1]
