"""What the ranking is worth, in words: the frame of `experiments.strategies`."""

from __future__ import annotations

import polars as pl

from workbench.edgegossip.paired import Mean
from workbench.edgegossip.trainings import final

_WORDS = {
    "accuracy_aware": "the paper's ranking",
    "importance": "importance sampling",
    "random_subsets": "random subsets",
    "random_points": "random points",
}


def strategies_in_words(frame: pl.DataFrame) -> str:
    """Say how fast and how accurate each way to choose is, and what the ranking adds to chance.

    Parameters
    ----------
    frame
        As `experiments.strategies` returns it.
    """
    found = final(frame).filter(order="shuffled").sort("seed")
    gosgd_s = _mean_s(found, "gosgd_s")
    lines = [f"Over the same {found['epoch'][0]} epochs, which take {gosgd_s:.0f} s with GoSGD:"]
    for strategy, words in _WORDS.items():
        of_one = found.filter(strategy=strategy)
        at_s, lost = _mean_s(of_one, "at_s"), Mean.of(of_one["lost_points"].to_list())
        lines.append(
            f"- {words}: {at_s:.0f} s, {gosgd_s / at_s:.1f} times as fast, {lost} points lost."
        )
    by_seed = [
        found.filter(strategy=strategy).select("seed", "top1", "at_s")
        for strategy in ("accuracy_aware", "random_points")
    ]
    both = by_seed[0].join(by_seed[1], on="seed", suffix="_random")
    gained = Mean.of((100 * (both["top1"] - both["top1_random"])).to_list())
    longer_s = _mean_s(both, "at_s") - _mean_s(both, "at_s_random")
    noise = ", within noise" if gained.within_noise else ""
    lines.append(
        f"The ranking against points drawn at random: {gained} points of accuracy{noise}, "
        f"{longer_s:+.0f} s."
    )
    return "\n".join(lines)


def _mean_s(frame: pl.DataFrame, column: str) -> float:
    return float(frame.select(pl.col(column).mean()).item())
