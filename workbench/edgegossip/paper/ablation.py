"""What varying EdgeGossip comes to, in words: ways to choose, ratios, and platforms that fail."""

from __future__ import annotations

import polars as pl

from workbench.edgegossip.paper.paired import Mean
from workbench.edgegossip.paper.trainings import final

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
        lines.append(_told(words, of_one, gosgd_s))
    ranked = final(frame).filter(order="ranked").sort("seed")
    lines.append(_told("the paper's ranking, learnt in its order", ranked, gosgd_s))
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


def _told(words: str, of_one: pl.DataFrame, gosgd_s: float) -> str:
    at_s, lost = _mean_s(of_one, "at_s"), Mean.of(of_one["lost_points"].to_list())
    return f"- {words}: {at_s:.0f} s, {gosgd_s / at_s:.1f} times as fast, {lost} points lost."


def ratios_in_words(frame: pl.DataFrame) -> str:
    """Say how the aggregation ratio moves time and accuracy, and what of the time is EdgeGossip's.

    Parameters
    ----------
    frame
        As `experiments.fig13` returns it.
    """
    found = final(frame).sort("ratio", "seed")
    gosgd_s, epochs = _mean_s(found, "gosgd_s"), found["epoch"][0]
    lines = [f"Over the same {epochs} epochs, which take {gosgd_s:.1f} s with GoSGD:"]
    totals_s = []
    for (ratio,), of_one in found.group_by("ratio", maintain_order=True):
        at_s, lost = _mean_s(of_one, "at_s"), Mean.of(of_one["lost_points"].to_list())
        aggregating_s, ranking_s = (
            _mean_s(of_one, f"{one}_s") for one in ("aggregating", "ranking")
        )
        lines.append(
            f"- ratio {ratio:g}: {at_s:.1f} s, {gosgd_s / at_s:.2f} times as fast"
            f"{' (slower)' if at_s > gosgd_s else ''}, {lost} points lost; aggregating takes "
            f"{aggregating_s:.1f} s once, ranking {ranking_s:.2f} s an epoch."
        )
        totals_s.append(at_s)
    lines.append(
        f"The whole takes {max(totals_s) / min(totals_s):.2f} times as long at one ratio as at "
        "another, where the paper gives ranking a very small influence on it."
    )
    return "\n".join(lines)


def dropouts_in_words(frame: pl.DataFrame) -> str:
    """Say how long each method takes while platforms fail, and how accurate it gets.

    Parameters
    ----------
    frame
        As `experiments.dropouts` returns it: one seed.
    """
    last = frame.filter(pl.col("epoch") == pl.col("epoch").max())
    lines = [f"Over the same {last['epoch'][0]} epochs, one seed:"]
    for (scenario,), of_one in last.group_by("scenario", maintain_order=True):
        (plain_s, plain), (ours_s, ours) = (
            of_one.filter(method=method).select("at_s", 100 * pl.col("top1")).row(0)
            for method in ("gosgd", "edgegossip")
        )
        lines.append(
            f"- {scenario}: GoSGD {plain_s:.0f} s, {plain:.1f} %; EdgeGossip {ours_s:.0f} s, "
            f"{ours:.1f} %: {plain_s / ours_s:.2f} times as fast, {ours - plain:+.1f} points."
        )
    return "\n".join(lines)


def _mean_s(frame: pl.DataFrame, column: str) -> float:
    return float(frame.select(pl.col(column).mean()).item())
