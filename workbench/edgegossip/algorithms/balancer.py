"""Gossip training balancer: how much of its data each platform keeps (Han et al. 2021, Alg. 1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from workbench.edgegossip.algorithms.failures import POLICIES, Handover, TooManyFailedError
from workbench.utils.checks import UserError, check_number, check_whole, choose, listed

THRESHOLD, FAILED_SHARE = 0.001, 0.1  # Sec. 3.3
EACH = "give a number for each platform"


@dataclass(frozen=True)
class Ratios:
    """Shares of points that the platforms process in the next epoch, an entry for each.

    Attributes
    ----------
    points
        Data points that the platform holds, after any handing over.
    ratios
        r_i: share of them to be learnt from. 1 of the fastest, 0 of a failed platform.
    failed
        F[i]: whether it counts as failed.
    epoch_s
        T[i]: seconds that all its points would take; infinite of a failed platform.
    handovers
        Points of failed platforms, and who took them over.
    """

    points: tuple[int, ...]
    ratios: tuple[float, ...]
    failed: tuple[bool, ...]
    epoch_s: tuple[float, ...]
    handovers: tuple[Handover, ...] = ()


def balance(
    points: Sequence[int],
    throughput: Sequence[float],
    threshold: float = THRESHOLD,
    failed_share: float = FAILED_SHARE,
    on_failures: str = "stop",
    *,
    ranking_share: float = 0.0,
    taking_over: Sequence[float] | None = None,
) -> Ratios:
    """Set each platform's ratio so that all take as long as the fastest.

    To the letter, without a `ranking_share`, r_i = T_1 / T_i. But before a platform learns it
    evaluates all its aggregated points, however small its ratio; one that is 5 times slower than
    the fastest would then always be late.

    Deviation: with the `ranking_share` g, T_i (r_i + g) is the same of all, so that r_i = T_1 / T_i
    - g (1 - T_1 / T_i). Where nothing is left, a platform learns from one point.

    A platform of a throughput below `threshold` counts as failed. As long as no more than
    `failed_share` of the platforms have, their data is left out of the epoch; beyond that, a
    policy decides, since the paper leaves its exception handling open.

    Deviation: the ratio of a platform without points is 1, and the fastest is sought among the
    others. Nothing is sorted, since only the least time matters.

    Parameters
    ----------
    points
        ``|X_i|``: data points that each platform holds; 0 if it handed them over.
    throughput
        p_i: data points per second that each platform is predicted to process.
    threshold
        Points per second; positive.
    failed_share
        From 0 to 1; failed platforms may be this share of all.
    on_failures
        A name in `POLICIES`.
    ranking_share
        g: seconds of ranking before an epoch, over those of learning from all points.
    taking_over
        Throughput by which the others take over points of failed platforms; None for `throughput`.
        Rates that stay from epoch to epoch keep the points where they are.

    Raises
    ------
    TooManyFailedError
        More failed than may, and the policy is to stop; or none is left, or none with points.
    """
    if not 0 < check_number("threshold", threshold) < math.inf:
        raise UserError(f"threshold is {threshold}; give points per second above 0")
    if not 0 <= check_number("failed_share", failed_share) <= 1:
        raise UserError(f"failed_share is {failed_share}; give a share from 0 to 1")
    hand_over = choose("on_failures", on_failures, POLICIES)
    if not 0 <= check_number("ranking_share", ranking_share) < math.inf:
        raise UserError(f"ranking_share is {ranking_share}; give a finite number, at least 0")
    held = tuple(check_whole("points", count, 0) for count in listed("points", points, EACH))
    rates = _rates("throughput", throughput)
    shared = rates if taking_over is None else _rates("taking_over", taking_over)
    if taking_over is not None and not all(shared):
        raise UserError(f"taking_over is {shared}; give points per second above 0")
    if not held or not len(held) == len(rates) == len(shared):
        raise UserError(
            f"{len(held)} platforms by points, {len(rates)} by throughput, {len(shared)} by "
            "taking_over; give as many of each, at least one"
        )
    failed, handovers = tuple(rate < threshold for rate in rates), tuple[Handover, ...]()
    if sum(failed) / len(rates) > failed_share:
        known = zip(rates, shared, failed, strict=True)
        held, handovers = hand_over(
            held, [own if gone else other for own, other, gone in known], failed
        )
    epoch_s = tuple(
        math.inf if out else count / rate
        for count, rate, out in zip(held, rates, failed, strict=True)
    )
    busy_s = [seconds for seconds in epoch_s if 0 < seconds < math.inf]
    if not busy_s:
        # Whatever the policy: without a platform that learns there is no next epoch.
        raise TooManyFailedError(
            f"{sum(failed)} of {len(rates)} platforms have failed (less than {threshold:g} points "
            "per second), and no other has points; there is nobody to go on with"
        )
    fastest_s = min(busy_s)
    ratios = tuple(
        0.0 if out else _ratio(fastest_s / seconds, ranking_share, count) if seconds > 0 else 1.0
        for seconds, out, count in zip(epoch_s, failed, held, strict=True)
    )
    return Ratios(held, ratios, failed, epoch_s, handovers)


def _rates(name: str, rates: object) -> tuple[float, ...]:
    checked = tuple(check_number(name, rate) for rate in listed(name, rates, EACH))
    if not all(0 <= rate < math.inf for rate in checked):
        raise UserError(f"{name} is {checked}; give points per second, finite and at least 0")
    return checked


def _ratio(literal: float, ranking_share: float, points: int) -> float:
    if not ranking_share:
        return literal
    return max(literal - ranking_share * (1 - literal), 1 / points)
