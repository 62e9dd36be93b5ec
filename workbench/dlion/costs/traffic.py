"""What the workers of each system send each other and wait for, from sizes alone.

A gradient counts as one weight variable, of which a system sends a share of the values in the
encoding of the fewest bytes. Where the share depends on the gradient, it is a constant from
trainings.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from workbench.decentralised.gradient_exchange.part import INDEX, count_of, encoded_bytes
from workbench.decentralised.model_exchange.ad_psgd import AdPsgd
from workbench.decentralised.model_exchange.choco_sgd import ChocoSgd
from workbench.decentralised.model_exchange.diloco import DiLoCo
from workbench.decentralised.model_exchange.moshpit_sgd import MoshpitSgd, line
from workbench.decentralised.model_exchange.noloco import NoLoCo
from workbench.decentralised.model_exchange.peer import partner
from workbench.dlion.algorithms.ako import Blocks
from workbench.dlion.algorithms.gaia import Significant
from workbench.dlion.algorithms.knowledge_transfer import Transfer
from workbench.dlion.algorithms.max_n import LEAST_N, MaxN, per_link
from workbench.dlion.algorithms.synchronisation import Progress
from workbench.dlion.algorithms.system import System
from workbench.dlion.algorithms.top_k import SHARE, TopK
from workbench.dlion.costs.fluid import MayBegin, Sends
from workbench.dlion.costs.network import Network

VALUE_BYTES = 4  # of a number in single precision

SHARES: dict[str, float] = {"gaia": 0.15, "max 10": 2.5e-5, "max 0.85": 1e-5}
"""Share of the values that are sent where the gradient decides: of significant ones, and by N.

Of Cipher, trained on CIFAR-10 in Homo A, in iterations 100 to 150; Gaia's rose until then, from
0.05 in the first 50. N = 0.85 leaves little more than the largest value of each weight variable.
"""

LinkBytes = dict[tuple[int, int], float]
"""(source, target) -> bytes."""


@dataclass(frozen=True)
class Traffic:
    """What is sent and waited for, in rounds of `every` iterations.

    Attributes
    ----------
    sends
        What a worker sends when it has computed a round.
    may_begin
        Whether its next round may begin; None: it always may.
    link_bytes
        Mean bytes of a round on each link.
    answer_bytes
        Of what a receiver sends back at once; None: nothing.
    period
        Rounds after which `sends` repeats; None if they are drawn.
    in_step
        Whether a worker that is ahead of others has to wait for them.
    hidden
        Whether sizes follow what links carry, so that sending delays only where it cannot be less.
    """

    sends: Sends
    may_begin: MayBegin | None
    link_bytes: LinkBytes
    every: int = 1
    answer_bytes: float | None = None
    period: int | None = 1
    in_step: bool = True
    hidden: bool = False


def traffic(
    system: System,
    network: Network,
    model_bytes: float,
    compute_s: Sequence[float],
    *,
    share: float | None = None,
    seed: int = 0,
) -> Traffic:
    """What a system sends; `compute_s` is what each worker's iteration takes to compute.

    `share` is that of the values that go to everyone; None takes the system's own. An unknown
    system sends whole gradients; or whole models, in every iteration, and waits for all others'.
    `seed` draws partners, NoLoCo's as in a training of that seed.
    """
    if system.exchange_models is not None:
        return _models(system.exchange_models, network, model_bytes, share, seed)
    if share is not None:
        link_bytes = dict.fromkeys(network.links, part_bytes(model_bytes, share))
    else:
        link_bytes = gradients(system, network, model_bytes, compute_s)
    may_begin, nothing = system.synch_training, dict.fromkeys(range(1, len(compute_s)), 0)
    far_ahead = 10**9
    waits = not may_begin(Progress(far_ahead, nothing, undelivered=1))
    follows = share is None and system.generate_partial_gradients is per_link
    return Traffic(
        _always(link_bytes, len(compute_s)),
        (lambda _, progress: may_begin(progress)) if waits else None,
        link_bytes,
        answer_bytes=0.0 if system.acknowledged else None,
        in_step=not may_begin(Progress(far_ahead, nothing)),
        hidden=follows and may_begin(Progress(1, nothing, undelivered=1)),
    )


def _always(link_bytes: Mapping[tuple[int, int], float], workers: int) -> Sends:
    sent: list[list[tuple[int, float]]] = [[] for _ in range(workers)]
    for (source, target), size_bytes in link_bytes.items():
        sent[source].append((target, size_bytes))
    return lambda worker, _: sent[worker]


# Gradients


def part_bytes(gradient_bytes: float, share: float) -> float:
    """Bytes of a share of a gradient's values, in the cheapest encoding."""
    values = math.ceil(gradient_bytes / VALUE_BYTES)
    encoded = encoded_bytes(math.ceil(share * values), values, VALUE_BYTES)
    return min(gradient_bytes, float(encoded))


def gradients(
    system: System, network: Network, gradient_bytes: float, compute_s: Sequence[float]
) -> LinkBytes:
    """Bytes on each link in an iteration of a system that exchanges gradients."""
    generate = system.generate_partial_gradients
    if generate is per_link:
        return max_n(network, gradient_bytes, compute_s)
    if generate is Blocks:
        return ako(network, gradient_bytes, compute_s)
    share = 1.0
    if generate is Significant:
        share = SHARES["gaia"]
    elif isinstance(generate, MaxN):
        share = SHARES.get(f"max {generate.n:g}", 1.0)
    elif generate is TopK:
        count = count_of(SHARE, gradient_bytes / VALUE_BYTES)
        share = count * VALUE_BYTES / gradient_bytes
    return dict.fromkeys(network.links, part_bytes(gradient_bytes, share))


def ako(network: Network, gradient_bytes: float, compute_s: Sequence[float]) -> LinkBytes:
    """A block of the gradient, so that all links carry theirs while an iteration computes.

    As `workbench.dlion.algorithms.ako.blocks` cuts it, if all links were in use when it looked.
    """
    budgets = _budgets(network, compute_s, network.links_bps)
    found: LinkBytes = {}
    for worker in range(len(compute_s)):
        links = [pair for pair in network.links if pair[0] == worker]
        blocks = max(1, math.ceil(gradient_bytes / min(budgets[pair] for pair in links)))
        found |= dict.fromkeys(links, part_bytes(gradient_bytes, 1 / blocks))
    return found


def max_n(network: Network, gradient_bytes: float, compute_s: Sequence[float]) -> LinkBytes:
    """What each link carries while an iteration computes, at least Max N of the least N.

    A link that would carry more than the whole gradient leaves the rest to others.
    """
    caps_bps = [
        min(bps, 8 * gradient_bytes / compute_s[source])
        for bps, (source, _) in zip(network.links_bps, network.links, strict=True)
    ]
    least = part_bytes(gradient_bytes, SHARES[f"max {LEAST_N:g}"])
    budgets = _budgets(network, compute_s, caps_bps)
    return {pair: min(gradient_bytes, max(least, one)) for pair, one in budgets.items()}


def knowledge(
    network: Network, model_bytes: float, transfer: Transfer, iteration_s: float, ahead: float
) -> tuple[float, LinkBytes]:
    """Seconds and bytes of direct knowledge transfer, an iteration's share.

    All are as likely to be the best, whose model is all that flows meanwhile. Gradients queue
    behind it, so that its receivers wait once they are `ahead` as many iterations as they may.
    """
    workers = len(network.at_worker)
    groups = [
        [link for link, (source, _) in enumerate(network.links) if source == best]
        for best in range(workers)
    ]
    if transfer.whom == "worst":
        groups = [[link] for link in range(len(network.links))]
    waits_s = 0.0
    for links in groups:
        rates_bps = network.rates_bps(links, [network.links_bps[link] for link in links])
        waits_s += max(0.0, 8 * model_bytes / min(rates_bps) - ahead * iteration_s)
    each = sum(map(len, groups)) / len(groups) / len(network.links)
    link_bytes = dict.fromkeys(network.links, each * model_bytes / transfer.period)
    return waits_s / len(groups) / transfer.period, link_bytes


def may_be_ahead(system: System, workers: int, most: int = 1000) -> float:
    """Iterations that a worker may be ahead of all that arrived; infinity for so many or more."""
    newest = dict.fromkeys(range(1, workers), 0)
    allowed = (system.synch_training(Progress(one, newest)) for one in range(1, most))
    return next((float(one) for one, may in enumerate(allowed) if not may), math.inf)


def _budgets(network: Network, compute_s: Sequence[float], caps_bps: Sequence[float]) -> LinkBytes:
    """Bytes that each link carries while an iteration of its source computes."""
    rates_bps = network.rates_bps(range(len(network.links)), caps_bps)
    return {
        pair: bps * compute_s[pair[0]] / 8
        for pair, bps in zip(network.links, rates_bps, strict=True)
    }


# Models


def _models(
    exchange: object, network: Network, model_bytes: float, share: float | None, seed: int
) -> Traffic:
    workers = len(network.at_worker)
    if isinstance(exchange, MoshpitSgd):
        axes = [
            [line(worker, workers, exchange.dimensions, axis) for worker in range(workers)]
            for axis in range(exchange.dimensions)
        ]
        return _among(axes, model_bytes, exchange.every)
    if isinstance(exchange, NoLoCo):
        return _drawn_pairs(network, 2 * model_bytes, exchange.every, seed)
    if isinstance(exchange, AdPsgd):
        return _asking(network, model_bytes, seed)
    size_bytes, every = model_bytes * (1.0 if share is None else share), 1
    if isinstance(exchange, DiLoCo):
        every = exchange.every
    elif isinstance(exchange, ChocoSgd):
        count = count_of(exchange.share if share is None else share, model_bytes / VALUE_BYTES)
        size_bytes = count * float(VALUE_BYTES + INDEX.itemsize)
    return _among([[list(range(workers))] * workers], size_bytes, every)


def _among(groups: Sequence[Sequence[Sequence[int]]], size_bytes: float, every: int) -> Traffic:
    """Everyone in a group sends to everyone in it; `groups` of each worker, by round, in turn."""
    others = [
        [[one for one in group if one != worker] for worker, group in enumerate(row)]
        for row in groups
    ]
    sent = [[[(one, size_bytes) for one in each] for each in row] for row in others]
    turns = len(groups)

    def may_begin(worker: int, progress: Progress) -> bool:
        turn = progress.iteration
        newest = progress.newest
        return all(newest[one] >= turn for one in others[(turn - 1) % turns][worker])

    link_bytes: LinkBytes = {}
    for row in others:
        for worker, each in enumerate(row):
            for one in each:
                before = link_bytes.get((worker, one), 0.0)
                link_bytes[worker, one] = before + size_bytes / turns
    return Traffic(
        lambda worker, turn: sent[(turn - 1) % turns][worker],
        may_begin,
        link_bytes,
        every=every,
        period=turns,
    )


def _drawn_pairs(network: Network, size_bytes: float, every: int, seed: int) -> Traffic:
    """Random pairs send to each other."""
    workers = len(network.at_worker)

    def other(worker: int, turn: int) -> int | None:
        return _partners(seed, turn * every, workers)[worker]

    def sends(worker: int, turn: int) -> list[tuple[int, float]]:
        to = other(worker, turn)
        return [] if to is None else [(to, size_bytes)]

    def may_begin(worker: int, progress: Progress) -> bool:
        to = other(worker, progress.iteration)
        return to is None or progress.newest[to] >= progress.iteration

    chances = workers - 1 + workers % 2
    link_bytes = dict.fromkeys(network.links, size_bytes / chances)
    return Traffic(sends, may_begin, link_bytes, every=every, period=None)


def _asking(network: Network, model_bytes: float, seed: int) -> Traffic:
    """Each sends a random peer its model, and waits for that one's."""
    workers = len(network.at_worker)
    return Traffic(
        lambda worker, turn: [(_asked(seed, worker, turn, workers), model_bytes)],
        lambda _, progress: not progress.undelivered,
        dict.fromkeys(network.links, model_bytes / (workers - 1)),
        answer_bytes=model_bytes,
        period=None,
        in_step=False,
    )


@lru_cache(maxsize=4096)
def _partners(seed: int, turn: int, workers: int) -> tuple[int | None, ...]:
    found: dict[int, int | None] = {}
    for worker in range(workers):
        if worker not in found:  # a draw of all for each that is asked for
            found[worker] = other = partner(seed, turn, worker, workers)
            if other is not None:
                found[other] = worker
    return tuple(found[worker] for worker in range(workers))


@lru_cache(maxsize=65536)
def _asked(seed: int, worker: int, turn: int, workers: int) -> int:
    drawn = random.Random(f"{seed} {worker} {turn}").randrange(workers - 1)
    return drawn + (drawn >= worker)
