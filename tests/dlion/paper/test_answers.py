"""Frames by hand to answers: right rows, honest gaps; each answer can fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import polars as pl
import pytest

from tests.conftest import Smoke
from tests.expectations import stored_frames
from workbench.dlion.paper.cases import ABOUT, CURVE
from workbench.dlion.paper.controllers import LEAST_ITERATIONS
from workbench.dlion.paper.figures import FIGURES
from workbench.reproduction.claims import Answer, claims_of
from workbench.reproduction.figure import answers_of
from workbench.reproduction.scorecard import of_frames

SYSTEMS = ("baseline", "hop", "gaia", "ako", "dlion")
LEARNT = "50,000 samples of cifar10"


def row(**about: Any) -> dict[str, Any]:
    """A row of a training, the last one unless it says otherwise."""
    usual = {"system": "dlion", "environment": "homo_a", "seed": 1, "stands_for": 1.0}
    usual |= {"staleness": 5 if about.get("system") == "hop" else None}
    usual |= {"learner": "cipher", "timed": "cipher", "dataset": "cifar10"}
    return {**usual, "train_samples": 50_000, "seconds": 1500.0, "at_s": 1500.0, **about}


def frame(*rows: Mapping[str, Any]) -> pl.DataFrame:
    schema = ABOUT | CURVE
    return pl.DataFrame([[one.get(name) for name in schema] for one in rows], schema, orient="row")


def compared(
    of: Mapping[str, Sequence[float]], where: str = "homo_a", value: str = "top1"
) -> list[dict[str, Any]]:
    """Last rows: by system, an accuracy for each seed."""
    return [
        row(**{"system": name, "environment": where, "seed": seed, "top1": 0.5, value: one})
        for name, seeds in of.items()
        for seed, one in enumerate(seeds, 1)
    ]


def answers(**frames: pl.DataFrame) -> dict[str, Answer]:
    """Answers by claim of frames that lack no column."""
    found = answers_of(FIGURES, frames).by_claim
    return {name.removeprefix("dlion."): one for name, one in found.items()}


HALF = {"baseline": [0.4], "hop": [0.5], "gaia": [0.48], "ako": [0.6], "dlion": [0.6]}


@pytest.fixture
def nothing_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.reproduction.scorecard.judging.load_all", lambda *_: ({}, {}))


@pytest.mark.usefixtures("nothing_recorded")
class TestAllClaims:
    def test_each_is_answered_or_says_what_it_waits_for(self, smoke: Smoke) -> None:
        """Small trainings say nothing of what is learnt; the others answer."""
        card = of_frames("dlion", stored_frames(smoke, "dlion"), scale="smoke")
        assert len(card.rows) == len(claims_of("dlion")) == 90
        answered = {row.claim.id for row in card.rows if row.verdict != "not run"}
        small = ("dlion.table1.", "dlion.models.", "dlion.cores.", "dlion.fig6.step.first")
        assert {one for one in claims_of("dlion") if one.startswith(small)} <= answered
        figures = {one.split(".")[1] for one in answered}
        assert figures <= {"table1", "models", "cores", "fig6", "fig8"}

    @pytest.mark.parametrize("figure", ["fig11", "fig15", "fig21"])
    def test_missing_frames_and_systems_leave_claims_out(self, figure: str) -> None:
        assert answers() == {}
        assert answers(**{figure: frame(row(top1=0.6))}) == {}
        assert answers(**{figure: frame(row(top1=0.6, system="ako"))}) == {}


class TestGains:
    def test_of_one_seed(self) -> None:
        found = answers(fig11=frame(*compared(HALF)))
        assert set(found) == {f"fig11.homo_a.{name}" for name in SYSTEMS[:-1]}
        baseline = found["fig11.homo_a.baseline"]
        assert baseline.ours == pytest.approx(50)
        assert baseline.detail == f"60.0/40.0 % of dlion/baseline, gain one seed, {LEARNT}"
        assert found["fig11.homo_a.ako"].ours == pytest.approx(0)

    def test_as_a_mean_over_three_environments(self) -> None:
        """0.4, 0.5 and 0.3 against 0.6 each: 50, 20 and 100 percent."""
        where = {"homo_a": 0.4, "hetero_cpu_a": 0.5, "hetero_cpu_b": 0.3}
        rows = [
            one
            for name, top1 in where.items()
            for one in compared({"ako": [top1], "dlion": [0.6]}, name)
        ]
        name = "fig13.mean_of_homo_a_hetero_cpu_a_b.ako"
        assert answers(fig13=frame(*rows))[name].ours == pytest.approx(170 / 3)
        assert answers(fig13=frame(*rows[:4])) == {}

    def test_as_ratios(self) -> None:
        three = {"hop": [0.2, 0.2, 0.2], "dlion": [0.4, 0.6, 0.5]}
        found = answers(fig12=frame(*compared(three, "homo_c")))["fig12.homo_c.hop"]
        assert found.ours == pytest.approx(2.5)
        assert found.detail.startswith("± 0.3 x (3 seeds)")

    def test_seeds_with_a_training_that_failed_are_left_out_and_named(self) -> None:
        failed = row(seed=2, at_s=None, reason="diverged")
        found = answers(fig11=frame(failed, *compared(HALF)))["fig11.homo_a.baseline"]
        assert found.ours == pytest.approx(50)
        assert "without seed 2, where trainings are missing" in found.detail
        found = answers(fig11=frame(row(at_s=None, reason="diverged")))["fig11.homo_a.ako"]
        assert found.not_run.startswith("takes 1 seed; here without seed 1")


def everywhere(of: Mapping[str, Mapping[str, float]], value: str = "top1") -> pl.DataFrame:
    """By environment, a value of each system."""
    each = (
        compared({k: [v] for k, v in values.items()}, where, value) for where, values in of.items()
    )
    return frame(*(one for rows in each for one in rows))


LAN = dict.fromkeys(SYSTEMS, 0.6)
WAN = {"baseline": 0.2, "hop": 0.3, "gaia": 0.4, "ako": 0.5, "dlion": 0.55}


class TestOrders:
    @pytest.mark.parametrize(
        ("changed", "claim"),
        [
            ({"dlion": 0.61}, "fig15.lan_over_wan"),
            ({"hop": 0.45}, "fig15.whole_lose_more"),
            ({"ako": 0.3}, "fig15.small_gradients.homo_b"),
            ({"ako": 0.3}, "fig15.small_gradients.hetero_net_a"),
        ],
    )
    def test_fig15(self, changed: Mapping[str, float], claim: str) -> None:
        for wan, holds in ((WAN, True), ({**WAN, **changed}, False)):
            fig15 = everywhere({"homo_a": LAN, "homo_b": wan, "hetero_net_a": wan})
            assert answers(fig15=fig15)[claim].ours is holds

    @pytest.mark.parametrize(
        ("figure", "claim", "where"),
        [
            ("fig11", "unequal_systems", ("homo_a", "hetero_sys_a", "hetero_sys_b")),
            ("fig15", "unequal_links", ("homo_b", "hetero_net_a")),
        ],
    )
    def test_gains_where_systems_are_unequal(
        self, figure: str, claim: str, where: Sequence[str]
    ) -> None:
        """One system may gain less, as in the paper; the mean decides."""
        less = {**LAN, "dlion": 0.62, "ako": 0.59}
        equal, *unequal = where
        for more, holds in (
            ({**less, "ako": 0.62, "hop": 0.3}, True),
            ({**less, "hop": 0.7}, False),
        ):
            rows = everywhere({equal: less, **dict.fromkeys(unequal, more)})
            found = answers(**{figure: rows})
            assert found[f"{figure}.{claim}"].ours is holds
        without_hop = answers(**{figure: rows.filter(pl.col("system") != "hop")})
        assert f"{figure}.{claim}" not in without_hop

    @pytest.mark.parametrize(("hop", "holds"), [(0.57, True), (0.5, False)])
    def test_fig13(self, hop: float, holds: bool) -> None:
        """6 points of 60 % are near."""
        fig13 = everywhere(
            {"homo_a": LAN, "hetero_cpu_a": {**LAN, "hop": hop}, "hetero_cpu_b": LAN}
        )
        assert answers(fig13=fig13)["fig13.alike"].ours is holds
        without_hop = answers(fig13=fig13.filter(pl.col("system") != "hop"))
        assert "fig13.alike" not in without_hop

    def test_largest_gain_of_all_figures(self) -> None:
        slow, fast = ({**LAN, "baseline": top1} for top1 in (0.3, 0.2))
        first = everywhere({"homo_a": LAN, "hetero_sys_a": slow})
        others = {"fig15": everywhere({"homo_a": LAN, "homo_b": fast}), "fig18": first.head(0)}
        found = answers(fig11=first, **others)
        assert "speedup.cpu_cluster" not in found
        others["fig18"] = everywhere({"dynamic_sys_a": slow})
        found = answers(fig11=first, **others)
        assert found["speedup.cpu_cluster"].ours == pytest.approx(2)
        assert "over baseline in homo_b" in found["speedup.cpu_cluster"].detail

    @pytest.mark.parametrize(("ours", "holds"), [((0.6, 0.61), True), ((0.6, 0.5), False)])
    def test_fig16(self, ours: Sequence[float], holds: bool) -> None:
        others = {"baseline": 0.4, "hop": 0.5, "gaia": 0.48, "ako": 0.55}
        where = ("homo_a", "hetero_sys_a")
        fig16 = everywhere({w: {**others, "max10": m} for w, m in zip(where, ours, strict=True)})
        assert answers(fig16=fig16)["fig16.max10"].ours is holds
        without_hop = answers(fig16=fig16.filter(pl.col("system") != "hop"))
        assert ("fig16.max10" in without_hop) is not holds  # a miss is a miss without it, too
        sentence = [
            row(system="max10", n=90.0, environment=name, top1=0.99, accumulate=added)
            for name, added in product(where, (None, True))
        ]
        both = answers(fig16=pl.concat([fig16, frame(*sentence)]))["fig16.max10"]
        assert both.ours is holds  # by the examples, which are in use
        assert "sentence" in both.detail
        assert "added up" in both.detail

    @pytest.mark.parametrize(("gaia", "holds"), [(0.2, True), (0.35, False)])
    def test_fig17(self, gaia: float, holds: bool) -> None:
        far = {"dlion": 0.1, "gaia": 0.2, "hop": 0.3, "ako": 0.4}
        fig17 = everywhere({"homo_a": {**far, "gaia": gaia}, "homo_b": far}, "top1_sd")
        found = answers(fig17=fig17)["fig17.deviation"]
        assert found.ours is holds
        assert "10.00/20.00/30.00/40.00 points of dlion/gaia/hop/ako in homo_b" in found.detail
        assert answers(fig17=fig17.filter(pl.col("system") == "dlion")) == {}

    @pytest.mark.parametrize(("hop", "holds"), [(0.4, True), (0.2, False)])
    def test_fig21(self, hop: float, holds: bool) -> None:
        rows = compared({"baseline": [0.3], "hop": [hop], "gaia": [0.4], "ako": [0.5]})
        assert answers(fig21=frame(*rows))["fig21.above_baseline"].ours is holds

    @pytest.mark.parametrize(
        ("top1", "holds"),
        [
            ((0.3, 0.4, 0.6, 0.61, 0.615), True),
            ((0.3, 0.4, 0.6, 0.61, 0.63), False),  # more than 2 points apart
            ((0.3, 0.6, 0.6, 0.61, 0.62), False),
        ],
    )
    def test_fig5(self, top1: Sequence[float], holds: bool) -> None:
        rows = [
            row(growth_epochs=start, top1=one, at_s=at_s, global_batch=size)
            for start, one in enumerate(top1)
            for at_s, size in ((750.0, 192), (1500.0, 384))
        ]
        found = answers(fig5=frame(*reversed(rows)))["fig5.early"]
        assert found.ours is holds
        assert "% of 0/1/2/3/4, the first epoch" in found.detail
        assert answers(fig5=frame(*rows[:4])) == {}
        short = answers(fig5=frame(*rows[:-1]))["fig5.early"]
        assert short.ours is None
        assert "growth from epoch 4 on" in short.not_run

    @pytest.mark.parametrize(("top1", "holds"), [((0.1, 0.2, 0.3), True), ((0.1, 0.3, 0.3), False)])
    def test_fig7(self, top1: Sequence[float], holds: bool) -> None:
        rows = [row(n=n, top1=one) for n, one in zip((1.0, 10.0, 100.0), top1, strict=True)]
        assert answers(fig7=frame(*reversed(rows)))["fig7.max_n"].ours is holds
        assert answers(fig7=frame(*rows[:1])) == {}


def reaching(late_s: float | None, **about: Any) -> list[dict[str, Any]]:
    """A training that has 70 % from a second on; None: 40 % at most."""
    if late_s is None:
        return [row(at_s=750.0, top1=0.2, **about), row(top1=0.4, **about)]
    return [
        row(at_s=late_s - 1e-9, top1=0.0, **about),
        row(at_s=late_s, top1=0.7, **about),
        row(top1=0.7, **about),
    ]


def sooner_or_never(late_s: float | None, period: int) -> list[dict[str, Any]]:
    """Never: a second seed was not evaluated, so that it does not lower what all reach."""
    if late_s is not None:
        return reaching(late_s, period=period)
    return [*reaching(900.0, period=period), row(period=period, seed=2, top1=None)]


class TestTransfers:
    @pytest.mark.parametrize(
        ("until_s", "holds", "shown"),
        [
            ({10: 900, 100: 600, 1000: 1200}, True, "600/900/1200 s, every 100/every 10/"),
            ({10: None, 100: 600, 1000: None}, True, "600/never/never s"),
            ({10: 500, 100: 600, 1000: 1200}, False, "until 70 %: 600/500/1200 s"),
            ({10: 900, 100: None, 1000: 1200}, False, "never/900/1200 s"),
        ],
    )
    def test_fig9a(self, until_s: Mapping[int, float | None], holds: bool, shown: str) -> None:
        rows = [one for period, at_s in until_s.items() for one in sooner_or_never(at_s, period)]
        others = [row(early=500, at_s=1.0, top1=0.9), row(share=0.5, at_s=1.0, top1=0.9)]
        found = answers(fig9=frame(*rows, *others))["fig9a.period"]
        assert found.ours is holds
        assert shown in found.detail

    @pytest.mark.parametrize(("early_s", "holds"), [(650.0, True), (670.0, False)])
    def test_fig9a_early(self, early_s: float, holds: bool) -> None:
        """60 s of 600 s are near."""
        rows = [*reaching(600.0, period=100), *reaching(900.0, period=1000)]
        found = answers(fig9=frame(*rows, *reaching(early_s, early=500)))["fig9a.early"]
        assert found.ours is holds
        assert "fig9a.early" not in answers(fig9=frame(*rows))

    @pytest.mark.parametrize(
        ("top1", "holds"),
        [((0.6, 0.5, 0.4), True), ((0.6, 0.4, 0.5), False), ((0.5, 0.5, 0.4), False)],
    )
    def test_fig9b(self, top1: Sequence[float], holds: bool) -> None:
        everyone, worst, none = top1
        rows = [row(top1=none, techniques="batching + links"), row(top1=worst, whom="worst")]
        other = row(share=0.0, top1=0.99)
        found = answers(fig9=frame(*rows, row(top1=everyone), other))["fig9b.whom"]
        assert found.ours is holds
        assert answers(fig9=frame(*rows)) == {}

    @pytest.mark.parametrize(
        ("early", "end", "lowest", "first_not_last"),
        [
            ((0.1, 0.2, 0.2, 0.3), (0.3, 0.6, 0.6, 0.5), True, True),
            ((0.1, 0.3, 0.2, 0.2), (0.3, 0.6, 0.6, 0.5), True, False),
            ((0.1, 0.2, 0.2, 0.3), (0.3, 0.5, 0.5, 0.6), True, False),
            ((0.1, 0.2, 0.2, 0.3), (0.5, 0.6, 0.6, 0.4), False, True),
        ],
    )
    def test_fig9c(
        self, early: Sequence[float], end: Sequence[float], lowest: bool, first_not_last: bool
    ) -> None:
        """A lambda of 0.75 is the usual one."""
        rows = [
            row(share=share, top1=top1, at_s=at_s)
            for at_s, each in ((300.0, early), (1500.0, end))
            for share, top1 in zip((0.0, 0.5, None, 1.0), each, strict=True)
        ]
        found = answers(fig9=frame(*rows))
        assert found["fig9c.none"].ours is lowest
        assert found["fig9c.replace"].ours is first_not_last


NEITHER = {"techniques": "links + transfer"}
UNWEIGHTED = {"weighting": "equal"}


class TestSpeedUps:
    def test_by_hand(self) -> None:
        rows = [*reaching(1000.0, **NEITHER), *reaching(800.0, **UNWEIGHTED), *reaching(600.0)]
        found = answers(fig14=frame(*rows))
        assert found["fig14.dynamic_batching.homo_a"].ours == pytest.approx(20)
        weighted = found["fig14.weighted_update.homo_a"]
        assert weighted.ours == pytest.approx(25)
        assert weighted.detail == f"until 70 %: 1000/800/600 s (neither/batching/weights), {LEARNT}"
        assert "fig14.dynamic_batching.hetero_cpu_a" not in found
        assert answers(fig14=frame(*rows[:3], *rows[6:])) == {}

    def test_the_accuracy_is_one_that_all_reach(self) -> None:
        """40 % at the end of one; the others pass it at once when they jump to 70 %."""
        rows = [*reaching(None, **NEITHER), *reaching(800.0, **UNWEIGHTED), *reaching(600.0)]
        found = answers(fig14=frame(*rows))["fig14.dynamic_batching.homo_a"]
        assert found.ours == pytest.approx(100 * (1500 - 800) / 1500)
        assert found.detail.startswith("until 40 %: 1500/800/600 s")

    def test_a_seed_that_never_gets_there(self) -> None:
        """Its last row has no accuracy, so that it does not lower what all reach."""
        never = row(seed=2, at_s=1500.0, top1=None, **NEITHER)
        others = [*reaching(800.0, **UNWEIGHTED), *reaching(600.0)]
        found = answers(fig14=frame(*reaching(1000.0, **NEITHER), never, *others))
        first = found["fig14.dynamic_batching.homo_a"]
        assert first.ours is None
        assert first.detail.startswith("not all reach it; until 70 %: never/800/600 s (")
        assert found["fig14.weighted_update.homo_a"].ours == pytest.approx(25)


class TestConverged:
    def test_accuracy_and_time_by_hand(self) -> None:
        rows = [*reaching(1000.0, system="hop"), *reaching(600.0), *reaching(500.0, system="ako")]
        found = answers(fig21=frame(*rows))
        assert found["fig21.accuracy.hop"].ours == pytest.approx(0)
        assert found["fig21.time.hop"].ours == pytest.approx(40)
        assert found["fig21.time.ako"].ours == pytest.approx(-20)
        assert found["fig21.time.hop"].detail == f"settled at 600/1000 s, one seed, {LEARNT}"

    def test_each_seed_of_each_system_settles_at_its_own_highest_accuracy(self) -> None:
        """0.3, 0.5 and 0.7 are more than 1 % apart."""
        slow = [row(system="hop", at_s=300.0, top1=0.3), row(system="hop", top1=0.2)]
        second = [row(system="hop", seed=2, at_s=at_s, top1=0.5) for at_s in (900.0, 1500.0)]
        rows = [*slow, *second, *reaching(600.0), *reaching(600.0, seed=2)]
        found = answers(fig21=frame(*rows))
        assert found["fig21.accuracy.hop"].ours == pytest.approx(100 * (7 / 3 + 7 / 5 - 2) / 2)
        saved = 100 * (1 - (600 / 297 + 600 / 891) / 2)
        assert found["fig21.time.hop"].ours == pytest.approx(saved, rel=1e-3)
        assert found["fig21.time.hop"].seeds == 2

    def test_the_highest_accuracy_counts(self) -> None:
        """Of Figures 18 and 21, wherever it is reached."""
        rows = [row(top1=0.8, at_s=700.0), row(top1=0.6), *compared({"ako": [0.5]})]
        found = answers(fig21=frame(*rows), fig11=frame(*rows))
        assert found["fig21.accuracy.ako"].ours == pytest.approx(60)
        assert found["fig11.homo_a.ako"].ours == pytest.approx(20)
        moved = [{**one, "environment": "dynamic_sys_a"} for one in rows]
        assert answers(fig18=frame(*moved))["fig18.dynamic_sys_a.ako"].ours == pytest.approx(60)


def batches(*phases: Sequence[int]) -> pl.DataFrame:
    """Of each phase `LEAST_ITERATIONS` long, after which the first worker has the last's cores."""
    cores, rows = (24.0, 12.0, 4.0), list[dict[str, Any]]()
    for phase, samples in enumerate(phases):
        now = [*cores[phase:], *cores[:phase]]
        for iteration in range(len(rows) // len(cores), (phase + 1) * LEAST_ITERATIONS + 1):
            every = {"at_s": 1.0 * iteration, "iteration": iteration, "global_batch": 90}
            rows += [
                {**every, "node": node, "samples": one, "cores": now[node]}
                for node, one in enumerate(samples)
            ]
    return pl.DataFrame(rows)


RISING = (50, 30, 10)


class TestControllers:
    @pytest.mark.parametrize(
        ("fig6", "fig19", "holds"),
        [
            ([RISING], [RISING], True),
            ([(45, 45, 0)], [RISING], False),
            ([(50, 29, 10)], [RISING], False),  # the sum
            ([RISING], [(50, 10, 30)], False),
            ([RISING], [RISING, (30, 10, 50)], True),
            ([RISING], [RISING, RISING], False),  # never change
            ([RISING], [(50, 10, 30), (30, 10, 50)], False),
        ],
    )
    def test_local_batches_follow_cores_and_sum_up(
        self, fig6: list[Sequence[int]], fig19: list[Sequence[int]], holds: bool
    ) -> None:
        frames = {"fig6": batches(*fig6), "fig19": batches(*fig19)}
        assert answers(**frames)["fig6.lbs"].ours is holds
        assert "fig6.lbs" not in answers(fig6=frames["fig6"])

    def test_an_iteration_that_not_all_have_begun_is_not_summed(self) -> None:
        whole = batches(RISING)
        begun = whole.tail(1).with_columns(pl.col("iteration") + 100)
        assert answers(fig6=begun.vstack(whole), fig19=whole)["fig6.lbs"].ours is True

    def test_an_iteration_in_which_cores_change_is_of_neither_phase(self) -> None:
        frame = batches(RISING, (30, 10, 50))
        mixed = pl.col("iteration") == LEAST_ITERATIONS + 1
        mixed_cores = pl.when(mixed & (pl.col("node") == 0)).then(24.0).otherwise("cores")
        mixed_samples = pl.when(mixed).then(30).otherwise("samples")
        fig19 = frame.with_columns(cores=mixed_cores, samples=mixed_samples)
        assert answers(fig6=frame, fig19=fig19)["fig6.lbs"].ours is True

    def test_when_the_global_batch_grows(self) -> None:
        sizes = [(0.0, 192), (250.0, 256), (260.0, 256), (600.0, 320)]
        found = answers(fig6=pl.DataFrame(sizes, ["at_s", "global_batch"], orient="row"))
        assert found["fig6.step.first"].ours == 250
        assert found["fig6.step.second"].ours == 600
        assert "fig6.step.third" not in found

    @pytest.mark.parametrize(("third", "holds"), [(20.0, True), (5.0, False)])
    def test_the_wider_link_is_sent_more(self, third: float, holds: bool) -> None:
        """Workers 1, 3 and 5 of the paper are 0, 2 and 4 here."""
        fig8 = pl.DataFrame({"source": [0, 0, 1], "target": [2, 4, 4], "percent": [third, 10, 99]})
        assert answers(fig8=fig8)["fig8.size"].ours is holds

    @pytest.mark.parametrize(("percent", "holds"), [((6.0, 18.0), True), ((10.0, 20.0), False)])
    def test_sizes_follow_bandwidth(self, percent: Sequence[float], holds: bool) -> None:
        fig20 = pl.DataFrame({"mbps": [30.0, 100.0], "percent": percent})
        assert answers(fig20=fig20)["fig20.size"].ours is holds
        assert answers(fig20=fig20.head(1))["fig20.size"].not_run
