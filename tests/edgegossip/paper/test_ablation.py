"""Means with their errors, and the words of the ablation, by hand."""

from collections.abc import Mapping

import polars as pl
import pytest

from workbench.edgegossip.algorithms import STRATEGIES
from workbench.edgegossip.paper.ablation import (
    dropouts_in_words,
    ratios_in_words,
    strategies_in_words,
)
from workbench.edgegossip.paper.paired import Mean


def test_the_error_of_a_mean_by_hand() -> None:
    one = Mean.of([1.0, 2.0, 3.0])
    assert one.value == 2
    assert one.error == pytest.approx(3**-0.5)
    assert str(one) == "+2.00 ± 0.58"
    assert not one.within_noise
    assert Mean.of([-1.0, 1.1]).within_noise
    assert not Mean.of([0.0, 0.0]).within_noise


def test_one_seed_has_no_error() -> None:
    assert Mean.of([-2.0]) == (-2.0, None)
    assert str(Mean.of([-2.0])) == "-2.00 (one seed)"
    assert not Mean.of([0.0]).within_noise


def strategies(lost: Mapping[str, tuple[float, ...]]) -> pl.DataFrame:
    """As the experiment's frame: GoSGD at 90 % in 100 s, each way in seconds of its own."""
    seconds = dict(zip(STRATEGIES, (50.0, 80.0, 40.0, 20.0), strict=True))
    about = {"model": "m", "learner": "m", "platforms": 4, "imbalance": 1.0, "kept": 0.5}
    rows = []
    for seed in range(1, 1 + len(next(iter(lost.values())))):
        made = about | {"seed": seed, "epoch": 7}
        plain = {"method": "gosgd", "strategy": None, "order": None, "at_s": 100.0, "top1": 0.9}
        rows.append(made | plain)
        for name, at_s in seconds.items():
            top1 = 0.9 - lost[name][seed - 1] / 100
            ours = {"method": "edgegossip", "strategy": name, "order": "shuffled"}
            rows.append(made | ours | {"at_s": at_s, "top1": top1})
        ranked = {"method": "edgegossip", "strategy": "accuracy_aware", "order": "ranked"}
        rows.append(made | ranked | {"at_s": 400.0, "top1": 0.1})
    return pl.DataFrame(rows, schema_overrides={"strategy": pl.String, "order": pl.String})


def test_the_ablation_in_words_by_hand() -> None:
    lost = dict.fromkeys(STRATEGIES, (0.5, 1.5, 1.0))
    lost |= {"random_points": (1.5, 3.5, 1.0)}
    told = strategies_in_words(strategies(lost)).splitlines()
    assert told[0] == "Over the same 7 epochs, which take 100 s with GoSGD:"
    at_s = {"accuracy_aware": 50, "importance": 80, "random_subsets": 40, "random_points": 20}
    assert {words.split(": ")[1].split(" s,")[0] for words in told[1:5]} == {
        str(seconds) for seconds in at_s.values()
    }
    assert "- the paper's ranking: 50 s, 2.0 times as fast, +1.00 ± 0.29 points lost." in told
    assert "- random points: 20 s, 5.0 times as fast, +2.00 ± 0.76 points lost." in told
    assert told[5] == (
        "- the paper's ranking, learnt in its order: 400 s, 0.2 times as fast, +80.00 ± 0.00 "
        "points lost."
    )
    assert told[-1] == (
        "The ranking against points drawn at random: +1.00 ± 0.58 points of accuracy, +30 s."
    )


def test_what_chance_may_have_made_is_called_so() -> None:
    lost = dict.fromkeys(STRATEGIES, (0.5, 1.5, 1.0))
    lost |= {"random_points": (1.5, 0.6, 1.0)}
    assert "+0.03 ± 0.55 points of accuracy, within noise, +30 s." in strategies_in_words(
        strategies(lost)
    )
    alone = strategies_in_words(strategies(dict.fromkeys(STRATEGIES, (0.5,))))
    assert "+0.00 (one seed) points of accuracy, +30 s." in alone


def test_the_ratios_in_words_by_hand() -> None:
    about = {"model": "m", "learner": "m", "platforms": 4, "imbalance": 1.0, "epoch": 7}
    found: dict[float | None, tuple[float, ...]] = {
        None: (50.0, 0.9, 0.0, 0.0),
        5.0: (60.0, 0.89, 8.0, 0.2),
        20.0: (40.0, 0.87, 2.0, 0.05),
    }
    rows = []
    for seed, longer_s in ((1, -1.0), (2, 1.0)):
        for ratio, (at_s, top1, aggregating_s, ranking_s) in found.items():
            method = "gosgd" if ratio is None else "edgegossip"
            ours = {"method": method, "ratio": ratio, "aggregating_s": aggregating_s}
            times = {"at_s": at_s + longer_s, "ranking_s": ranking_s}
            rows.append(about | ours | times | {"seed": seed, "top1": top1})
    assert ratios_in_words(pl.DataFrame(rows)).splitlines() == [
        "Over the same 7 epochs, which take 50.0 s with GoSGD:",
        "- ratio 5: 60.0 s, 0.83 times as fast (slower), +1.00 ± 0.00 points lost; aggregating "
        "takes 8.0 s once, ranking 0.20 s an epoch.",
        "- ratio 20: 40.0 s, 1.25 times as fast, +3.00 ± 0.00 points lost; aggregating takes "
        "2.0 s once, ranking 0.05 s an epoch.",
        "The whole takes 1.50 times as long at one ratio as at another, where the paper gives "
        "ranking a very small influence on it.",
    ]


def test_failures_in_words_by_hand() -> None:
    rows = [
        {"scenario": scenario, "method": method, "epoch": epoch, "at_s": epoch * s, "top1": top1}
        for scenario, method, s, top1 in (
            ("two leave", "gosgd", 10.0, 0.96),
            ("two leave", "edgegossip", 12.5, 0.945),
            ("one slows down", "gosgd", 20.0, 0.9),
            ("one slows down", "edgegossip", 10.0, 0.905),
        )
        for epoch in (1, 2)
    ]
    assert dropouts_in_words(pl.DataFrame(rows)).splitlines() == [
        "Over the same 2 epochs, one seed:",
        "- two leave: GoSGD 20 s, 96.0 %; EdgeGossip 25 s, 94.5 %: 0.80 times as fast, "
        "-1.5 points.",
        "- one slows down: GoSGD 40 s, 90.0 %; EdgeGossip 20 s, 90.5 %: 2.00 times as fast, "
        "+0.5 points.",
    ]
