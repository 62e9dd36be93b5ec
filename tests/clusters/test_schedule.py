from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.refusals import refusals
from workbench.clusters import Link, Node, Schedule
from workbench.clusters.schedule import MOST_SAMPLES, ROUNDING
from workbench.utils.checks import UserError
from workbench.utils.files import DATA

STEPS = Schedule.of([(0, 2), (1, 0), (3, 4)])


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    lengths_s = draw(st.lists(st.floats(0.01, 5), max_size=6))
    starts_s = [sum(lengths_s[:place]) for place in range(len(lengths_s) + 1)]
    values = draw(
        st.lists(
            st.just(0.0) | st.floats(0.01, 100), min_size=len(starts_s), max_size=len(starts_s)
        )
    )
    return Schedule(tuple(starts_s), (*values[:-1], values[-1] or 1.0))


def test_by_hand() -> None:
    assert [STEPS.at(at_s) for at_s in (0, 0.9, 1, 2.9, 3, 99)] == [2, 2, 0, 0, 4, 4]
    assert [STEPS.next_change_s(at_s) for at_s in (0, 1, 2.9, 3)] == [1, 3, 3, math.inf]
    assert STEPS.served(0.5, 3.5) == 1 + 0 + 2
    assert STEPS.seconds_for(3, 0.5) == 3.0  # 1 until 1 s, nothing until 3 s, 2 in half a second
    assert STEPS.seconds_for(1, 0.5) == 0.5  # ends where the value ends
    assert STEPS.seconds_for(0, 2) == 0
    assert STEPS.seconds_for(4, 10) == 1


def test_a_constant_is_exact_to_the_last_bit() -> None:
    assert Schedule.of(3.0).seconds_for(0.7, 12.34) == 0.7 / 3.0
    assert Schedule.of(3).constant == 3
    assert STEPS.constant is None


@given(schedules(), st.floats(0, 20), st.floats(0, 500))
def test_seconds_for_inverts_served(schedule: Schedule, from_s: float, amount: float) -> None:
    seconds = schedule.seconds_for(amount, from_s)
    assert schedule.served(from_s, from_s + seconds) == pytest.approx(amount, rel=1e-9, abs=1e-9)


@given(schedules(), st.floats(0, 10), st.floats(0, 10), st.floats(0, 10))
def test_served_adds_up(schedule: Schedule, a: float, b: float, c: float) -> None:
    first, middle, last = sorted((a, b, c))
    parts = schedule.served(first, middle) + schedule.served(middle, last)
    assert schedule.served(first, last) == pytest.approx(parts, rel=1e-9, abs=1e-9)


class TestTheBrinkOfAnOutage:
    def test_by_hand(self) -> None:
        link = Link([(0, 1e6), (0.3, 0), (10, 1e6)])
        assert 0.3 - 0.1 < 0.2  # what fits exactly does not in floats
        assert 0.1 + link.transfer_s([25_000], 0.1) == 0.3
        assert 0.1 + link.transfer_s([25_001], 0.1) == pytest.approx(10 + 8e-6)

    @given(
        tenths=st.lists(st.integers(1, 40), min_size=2, max_size=4),
        values=st.lists(st.integers(1, 999), min_size=3, max_size=3),
        late=st.sampled_from([0, 10, 10_000]),
    )
    def test_what_fits_exactly_ends_there(
        self, tenths: list[int], values: list[int], late: int
    ) -> None:
        """All served from a tenth of a second up to the outage, counted in fractions."""
        edges = [Fraction(10 * late + sum(tenths[:place]), 10) for place in range(len(tenths) + 1)]
        from_s, *ends = edges[1:]
        pieces = list(zip([Fraction(0), *ends[:-1]], ends, values, strict=False))
        schedule = Schedule.of([*((float(start), value) for start, _, value in pieces),
                                (float(ends[-1]), 0), (1e6, 1)])  # fmt: skip
        amount = sum((end - max(start, from_s)) * value for start, end, value in pieces)
        end_s = Fraction(float(from_s) + schedule.seconds_for(float(amount), float(from_s)))
        # The rounding of a time counts as what is served meanwhile.
        unsure = ROUNDING * sum(end * value for _, end, value in pieces)
        assert abs(ends[-1] - end_s) * pieces[-1][2] <= unsure

    @given(st.integers(1, 30), st.integers(1, 30), st.floats(1, 1e9), st.floats(1e-12, 1))
    def test_what_does_not_fit_goes_on_behind_it(
        self, start: int, length: int, value: float, share: float
    ) -> None:
        from_s, end_s = start / 10, (start + length) / 10
        schedule = Schedule.of([(0, value), (end_s, 0), (50, value)])
        room = Fraction(value) * (Fraction(end_s) - Fraction(from_s))
        over = Fraction(share) * Fraction(value)
        exact = 50 - Fraction(from_s) + over / Fraction(value)
        seconds = schedule.seconds_for(float(room + over), from_s)
        assert over > ROUNDING * end_s * value
        assert Fraction(seconds) == pytest.approx(exact, rel=1e-14)

    @given(schedules(), st.floats(0, 20), st.floats(0, 500), st.floats(0, 1))
    def test_more_never_ends_earlier_nor_does_what_starts_later(
        self, schedule: Schedule, from_s: float, amount: float, more: float
    ) -> None:
        near = [end - from_s for end in schedule.starts_s if end > from_s]
        amounts = sorted(
            moved
            for one in [amount, *(schedule.served(from_s, from_s + gap) for gap in near)]
            for moved in (one, math.nextafter(one, math.inf), one * (1 + 1e-15), one + more)
        )
        seconds = [schedule.seconds_for(one, from_s) for one in amounts]
        assert seconds == sorted(seconds)
        later_s = math.nextafter(from_s, math.inf)
        for one, least_s in zip(amounts, seconds, strict=True):
            end_s = later_s + schedule.seconds_for(one, later_s)
            assert end_s >= (from_s + least_s) * (1 - 4 * ROUNDING)


def test_scaled_between_two_times() -> None:
    assert STEPS.scaled(0.5, 0.5, 4) == Schedule.of([(0, 2), (0.5, 1), (1, 0), (3, 2), (4, 4)])
    assert STEPS.scaled(3, 0, math.inf) == Schedule.of([(0, 6), (1, 0), (3, 12)])


@pytest.mark.parametrize("at_s", [-1, math.nan])
@pytest.mark.parametrize("ask", [STEPS.at, STEPS.next_change_s])
def test_times_before_0_are_refused(ask: Any, at_s: float) -> None:
    with pytest.raises(UserError, match=rf"{at_s} s is no time of a schedule"):
        ask(at_s)


test_amount_refused = refusals(
    STEPS.seconds_for,
    {"amount": 1, "from_s": 0},
    {
        "amount": {"give an amount": [-1, math.nan]},
        "from_s": {"a finite time": [math.inf, -1, math.nan]},
    },
)
test_scaled_refused = refusals(
    STEPS.scaled,
    {"factor": 1, "from_s": 0, "to_s": 1},
    {"factor": {"factor is": [-1, math.nan, math.inf]}},
)


def test_of_a_function() -> None:
    saw = Schedule.sampled(lambda at_s: 1 + at_s % 2, step_s=0.5, end_s=2)
    assert saw == Schedule.of([(0, 1), (0.5, 1.5), (1, 2), (1.5, 2.5)])


class TestCsv:
    @pytest.mark.parametrize(
        "text",
        [
            *(
                "0,10\n1,20\n",
                "s,mbps\n0,10\n\n1,20\n",
                "\ns,\n0,10\n1,20",
                " 0.0,+10. \n1e0 , 2e1",
            ),
        ],
    )
    def test_that_a_spreadsheet_saved(self, text: str, tmp_path: Path) -> None:
        path = tmp_path / "trace.csv"
        path.write_text(text, encoding="utf-8-sig")
        assert Schedule.from_csv(path, scale=2) == Schedule.of([(0, 20), (1, 40)])

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("start_s,mbps\n0,10\n1,fast\n", r"trace.csv, line 3: '1,fast' is not start_s,value"),
            ("0;5,5\n", "line 1: '0;5,5' is .*write both with a decimal point, and a comma"),
            ("0,10\n1_0,20\n", "line 2: '1_0,20' is not start_s,value"),
            ("0,٣\n", "line 1: '0,٣' is not start_s,value"),
            ("0,1,5\n", "line 1: '0,1,5' is not start_s,value"),
            ("0,inf\n", "line 1: '0,inf' is not start_s,value"),
            ("0,5x\n1,10\n", "line 1: '0,5x' is not start_s,value"),
            ("O,5\n1,10\n", "line 1: 'O,5' is not start_s,value"),
            ("start_s,mbps\ns,Mbit/s\n0,10\n", "line 2: 's,Mbit/s' is not start_s,value"),
            (f"0,{'1' * 200_000}\n", "trace.csv: the schedule is inf"),
            ("start_s,mbps\n", "trace.csv: the schedule has 0 starts"),
            ("0,10\n5,1\n3,1\n", "trace.csv: the schedule is not in order: 3.0 s comes after 5.0"),
        ],
    )
    def test_mistake_is_refused_by_its_line(self, text: str, message: str, tmp_path: Path) -> None:
        path = tmp_path / "trace.csv"
        path.write_text(text)
        with pytest.raises(UserError, match=message):
            Schedule.from_csv(path)


test_schedule_of_refused = refusals(
    Schedule.of,
    {"value": 1},
    {
        "value": {
            "0 starts for 0 values; give at least one": [[]],
            "starts at 1.0 s; it must start at 0 s": [[(1, 5)]],
            "not in order: 1.0 s comes after 2.0 s": [[(0, 5), (2, 5), (1, 5)]],
            "not in order": [[(0, 5), (0, 6)]],
            "a piece of the schedule starts at": [
                [(0, 5), (wrong, 5)] for wrong in (math.nan, math.inf, 1e300)
            ],
            "from .* s on; values are 0, or from 1e-12 to 1e.18": [
                [(0, math.nan)],
                [(0, math.inf)],
                [(0, 1e300)],
                [(0, 1e-300)],
                [(0, 5), (1, -1)],
            ],
            "0 for ever from 0.0 s on, so what waits for it would never end": [[(0, 0)]],
            "0 for ever from 9.0 s on": [[(0, 5), (9, 0)]],
            r"is not a schedule; give pairs of \(start_s, value\)": [
                "5",
                Path("trace.csv"),
                math.sin,
                None,
                True,
                1j,
                (0, 1e6),
                [(0, 5, 6)],
                [(0, 1), 3],
                ["ab"],
                {0: 1e6},
                {(0, 1), (5, 2)},
                [{0, 1}],
                np.array([1e6, 2e6]),
                pl.Series([1e6, 2e6]),
                pl.DataFrame({"s": [0, 1], "v": [5, 6], "more": ["a", "b"]}),
            ],
            "a value of the schedule has more digits than a float holds": [[(0, 10**400)]],
            "a value of the schedule is '5'; give a number": [[(0, "5")]],
            "a start of the schedule is '0'; give a number": [[("0", 5)]],
        }
    },
)
test_schedule_refused = refusals(
    Schedule,
    {"starts_s": (0,), "values": (1,)},
    {
        "values": {"1 starts for 2 values": [(1, 2)]},
        "starts_s": {
            r"starts_s is 0; give several, or use Schedule.of": [0],
            r"starts_s is {0, 1}, where order counts; give several": [{0, 1}],
        },
    },
)
test_sampled_refused = refusals(
    Schedule.sampled,
    {"function": lambda at_s: 1.0, "step_s": 1, "end_s": 2},
    {
        "function": {
            "5 is not a function of time; for values, use Schedule.of": [5],
            "a value of the schedule is None; give a number": [lambda at_s: None],
            r"schedule is nan from 0\.0 s on": [lambda at_s: math.nan],
        },
        "step_s": {
            "step_s is .*; it must be from 1e-12 to 1e.12": [0, 5e-324, math.inf],
            "step_s is '1'; give a number": ["1"],
            "make .* values; sample at most 10,000,000": [1e-12],
        },
        "end_s": {"make 10,000,001 values; sample at most": [MOST_SAMPLES + 1.0]},
    },
)


test_csv_refused = refusals(
    Schedule.from_csv,
    {"path": DATA / "traces" / "mobile_synthetic.csv"},
    {
        "path": {"path is 5; give a file": [5]},
        "scale": {"scale is": ["1e6", 0, -1, math.nan]},
    },
)


def test_numpys_numbers_make_schedules() -> None:
    assert Schedule.of(np.float32(5)) == Schedule.of(np.int64(5)) == Schedule.of(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "pairs",
    [
        np.array([[0, 1e6], [5, 2e6]]),
        pl.DataFrame({"start_s": [0, 5], "bps": [1e6, 2e6]}),
        pl.Series([[0.0, 1e6], [5.0, 2e6]]),
        pl.Series([[0.0, 1e6], [5.0, 2e6]], dtype=pl.Array(pl.Float64, 2)),
    ],
    ids=["array", "frame", "lists", "arrays"],
)
def test_every_capacity_takes_tables_of_pairs(pairs: Any) -> None:
    meant = Schedule.of([(0, 1e6), (5, 2e6)])
    node = Node("a", speed=pairs, uplink_bps=pairs, downlink_bps=pairs)
    assert node.speed == node.uplink_bps == node.downlink_bps == Link(pairs).bandwidth == meant


def test_shows_what_it_is() -> None:
    assert str(Schedule.of(5e6)) == "5e+06"
    assert str(STEPS) == "0 to 4 in 3 steps over 3 s"
