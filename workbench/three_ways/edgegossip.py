"""EdgeGossip: an epoch on three unequal platforms, with balancing and without.

With balancing, platforms estimate their speed by the seconds that an epoch took, so that from the
second epoch on what they learn from, and so their weights, depend on the clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from workbench.edgegossip import EdgeGossip, Platform, Predictor, Setup
from workbench.edgegossip.aggregation.costs import generation_s
from workbench.edgegossip.costs.course import Aggregating, course, total_s
from workbench.edgegossip.costs.platforms import exchange_s
from workbench.three_ways.case import Case
from workbench.three_ways.samples import digits

MODEL, BATCH_SIZE, SAMPLES, EPOCHS = "lenet5", 16, 96, 3
SAMPLE_S = {"laptop": 0.002, "board": 0.004, "phone": 0.008}
"""Seconds of a sample on each platform, with nothing beside."""
BANDWIDTHS_MBPS = (5.0, 20.0)
OVERHEAD_S = 0.005
RATIO, OPERATIONS_PER_S = 5.0, 1e8
CHOICES: dict[str, EdgeGossip | None] = {
    "plain": None,
    "balanced": EdgeGossip(ratio=RATIO, operations_per_s=OPERATIONS_PER_S),
}


def cases() -> Iterator[Case]:
    """Plain gossip and EdgeGossip at two bandwidths."""
    for mbps in BANDWIDTHS_MBPS:
        for choice in CHOICES:
            yield case(choice, mbps)


def case(choice: str, mbps: float, *, seed: int = 0) -> Case:
    """Epochs of all platforms, which exchange models with all; an iteration is an epoch."""
    platforms = [
        Platform(name, Predictor("linear", 4, 1e7, 1e8, (1.0, 0.5, 0.5), sample_s))
        for name, sample_s in SAMPLE_S.items()
    ]
    setup = Setup(
        MODEL,
        digits(SAMPLES * len(platforms)),
        platforms,
        uplink_bps=mbps * 1e6,
        overhead_s=OVERHEAD_S,
        batch_size=BATCH_SIZE,
        epochs=EPOCHS,
        evaluate_every=EPOCHS,
        seed=seed,
    )
    how = CHOICES[choice]
    return Case(
        system="edgegossip",
        setting=f"{MODEL}, {len(platforms)} platforms, {mbps:g} Mbit/s",
        choice=choice,
        setup=setup,
        how=how,
        iterations=EPOCHS,
        predict=partial(predicted_s, setup, how),
        ordered=how is not None,
        duplex=True,
    )


def predicted_s(setup: Setup, how: EdgeGossip | None) -> float:
    """Seconds of an epoch by the cost model."""
    points = list(map(len, setup.held))
    sent_s = exchange_s(
        setup.nodes - 1, setup.profile.param_bytes, setup.uplink_bps, setup.overhead_s
    )
    aggregating = None
    if how is not None:
        features, labels = setup.dataset.x_train[0].size, setup.dataset.y_train
        made_s = (
            generation_s(
                how.technique,
                count,
                features,
                how.ratio,
                how.operations_per_s,
                classes=len(set(labels[shard].tolist())),
            )
            for count, shard in zip(points, setup.held, strict=True)
        )
        aggregating = Aggregating(how.ratio, tuple(made_s), how.forward_share, how.window_s)
    epochs = course(setup.platforms, points, setup.epochs, sent_s, aggregating)
    return total_s(epochs) / setup.epochs
