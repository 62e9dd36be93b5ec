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

from workbench.clusters import Link, Node, Schedule
from workbench.clusters.schedule import MOST_SAMPLES, ROUNDING

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


at_any_time = pytest.mark.parametrize(
    "ask",
    [
        STEPS.at,
        STEPS.next_change_s,
        lambda at_s: STEPS.served(at_s, 5),
        lambda at_s: STEPS.served(5, at_s),
        lambda at_s: STEPS.seconds_for(1, at_s),
        lambda at_s: STEPS.seconds_for(0, at_s),
        lambda at_s: STEPS.scaled(0.5, at_s, 5),
        lambda at_s: STEPS.scaled(0.5, 0, at_s),
    ],
)


@at_any_time
@pytest.mark.parametrize("at_s", ["x", None, [1], np.array([1, 2])], ids=repr)
def test_a_time_is_a_number(ask: Any, at_s: Any) -> None:
    with pytest.raises(ValueError, match=r"_s is (.|\n)*; give a number"):
        ask(at_s)


@at_any_time
@pytest.mark.parametrize("at_s", [-1, -1e-9, math.nan])
def test_there_is_no_time_before_0(ask: Any, at_s: float) -> None:
    with pytest.raises(ValueError, match=rf"_s is {at_s}; a schedule starts at 0 s"):
        ask(at_s)


def test_what_is_served_is_no_less_than_nothing_and_from_a_time_that_comes() -> None:
    with pytest.raises(ValueError, match="the amount to serve is -1; it must be at least 0"):
        STEPS.seconds_for(-1, 0)
    with pytest.raises(ValueError, match="the amount to serve is nan"):
        STEPS.seconds_for(math.nan, 0)
    with pytest.raises(ValueError, match="from_s is inf; give a finite time"):
        STEPS.seconds_for(1, math.inf)


@pytest.mark.parametrize("amount", ["x", None, [5], np.array([5, 6])], ids=repr)
def test_what_is_served_is_a_number(amount: Any) -> None:
    with pytest.raises(ValueError, match=r"the amount to serve is .*; give a number"):
        STEPS.seconds_for(amount, 0)


@pytest.mark.parametrize(
    ("factor", "message"),
    [
        ("x", "factor is 'x'; give a number"),
        (None, "factor is None; give a number"),
        (-1, "factor is -1; it must be finite and at least 0"),
        (math.nan, "factor is nan; it must be finite"),
    ],
)
def test_a_factor_that_is_none(factor: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        STEPS.scaled(factor, 0, 1)


def test_of_a_function() -> None:
    saw = Schedule.sampled(lambda at_s: 1 + at_s % 2, step_s=0.5, end_s=2)
    assert saw == Schedule.of([(0, 1), (0.5, 1.5), (1, 2), (1.5, 2.5)])
    with pytest.raises(ValueError, match=r"step_s is 0; it must be above 0"):
        Schedule.sampled(lambda at_s: 1, step_s=0, end_s=2)
    with pytest.raises(ValueError, match=r"schedule is nan from 0\.0 s on"):
        Schedule.sampled(lambda at_s: math.nan, step_s=1, end_s=2)


@pytest.mark.parametrize(
    ("step_s", "end_s", "values"),
    [
        (1e-6, 1e6, "1,000,000,000,000"),
        (1.0, MOST_SAMPLES + 1.0, "10,000,001"),
        (1e-300, 1e9, "inf"),
    ],
)
def test_more_samples_than_memory_holds_are_counted(
    step_s: float, end_s: float, values: str
) -> None:
    with pytest.raises(ValueError, match=f"make {values} values; sample at most 10,000,000"):
        Schedule.sampled(math.sin, step_s=step_s, end_s=end_s)


class TestCsv:
    def test_of_a_recorded_trace(self, tmp_path: Path) -> None:
        path = tmp_path / "trace.csv"
        path.write_text("start_s,mbps\n0,10\n\n2.5,1.5\n")
        assert Schedule.from_csv(path, scale=1e6) == Schedule.of([(0, 10e6), (2.5, 1.5e6)])
        path.write_text("0,10\n1,20\n")
        assert Schedule.from_csv(path) == Schedule.of([(0, 10), (1, 20)])

    @pytest.mark.parametrize("text", ["0,10\n1,20\n", "s,mbps\n0,10\n1,20\n", "\ns,\n0,10\n1,20"])
    def test_that_a_spreadsheet_saved(self, text: str, tmp_path: Path) -> None:
        path = tmp_path / "trace.csv"
        path.write_text(text, encoding="utf-8-sig")
        assert Schedule.from_csv(path) == Schedule.of([(0, 10), (1, 20)])

    @pytest.mark.parametrize(
        ("scale", "message"),
        [
            ("1e6", "scale is '1e6'; give a number"),
            (0, "scale is 0; it must be above 0 and finite"),
            (-1, "scale is -1; it must be above 0"),
            (math.nan, "scale is nan; it must be above 0"),
        ],
    )
    def test_by_a_factor_that_is_none(self, scale: Any, message: str, tmp_path: Path) -> None:
        path = tmp_path / "trace.csv"
        path.write_text("0,10\n")
        with pytest.raises(ValueError, match=message):
            Schedule.from_csv(path, scale=scale)

    def test_in_another_encoding(self, tmp_path: Path) -> None:
        path = tmp_path / "trace.csv"
        path.write_text("0,10\n", encoding="utf-16")
        with pytest.raises(ValueError, match=r"trace.csv is no text in UTF-8; save it"):
            Schedule.from_csv(path)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("start_s,mbps\n0,10\n1,fast\n", r"trace.csv, line 3: '1,fast' is not start_s,value"),
            ("0,10\n1\n", "line 2: '1' is not start_s,value"),
            ("0,5x\n1,10\n", "line 1: '0,5x' is not start_s,value"),
            ("O,5\n1,10\n", "line 1: 'O,5' is not start_s,value"),
            ("start_s,mbps,note\n0,10,a\n", "line 1: 'start_s,mbps,note' is not start_s,value"),
            ("start_s,mbps\ns,Mbit/s\n0,10\n", "line 2: 's,Mbit/s' is not start_s,value"),
            ("start_s,mbps\n", "trace.csv: the schedule is empty"),
            ("0,10\n5,1\n3,1\n", "trace.csv: the schedule is not in order: 3.0 s comes after 5.0"),
        ],
    )
    def test_that_makes_no_sense(self, text: str, message: str, tmp_path: Path) -> None:
        path = tmp_path / "trace.csv"
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            Schedule.from_csv(path)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([], "the schedule is empty"),
        ([(1, 5)], "starts at 1.0 s; its first value must start at 0 s"),
        ([(0, 5), (2, 5), (1, 5)], "not in order: 1.0 s comes after 2.0 s"),
        ([(0, 5), (0, 6)], "not in order"),
        ([(0, 5), (math.nan, 5)], "starts at nan s"),
        ([(0, 5), (math.inf, 5)], "starts at inf s"),
        ([(0, math.nan)], "is nan from 0.0 s on; values are finite"),
        ([(0, math.inf)], "is inf from 0.0 s on"),
        ([(0, 5), (1, -1)], "is -1.0 from 1.0 s on"),
        ([(0, 0)], "0 for ever from 0.0 s on, so what waits for it would never end"),
        ([(0, 5), (9, 0)], "0 for ever from 9.0 s on"),
        ([(0, 5, 6)], "pairs of"),
    ],
)
def test_schedules_that_make_no_sense_are_refused(
    pairs: list[tuple[float, float]], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Schedule.of(pairs)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("5", "'5' is no schedule; give a number, pairs of .* or read a file with Schedule.from_c"),
        (Path("trace.csv"), "trace.csv.* Schedule.from_csv"),
        (math.sin, r"sin.* is a function; sample it with Schedule.sampled\(function, step_s=..."),
        (None, "None is no schedule; give a number or pairs"),
        (True, "True is no schedule"),
        (1j, "1j is no schedule"),
        ((0, 1e6), r"\(0, 1000000.0\) is no schedule; give pairs of \(start_s, value\)"),
        ([(0, 1), 3], "give pairs of"),
        (["ab"], "give pairs of"),
        ({0: 1e6}, "give pairs of"),
        ({(0, 1), (5, 2)}, "give pairs of"),
        ([{0, 1}], "give pairs of"),
        ([(0, 10**400)], "a value of the schedule has more digits than a float holds"),
        ([(0, "5")], "a value of the schedule is '5'; give a number"),
        ([("0", 5)], "a start of the schedule is '0'; give a number"),
    ],
)
def test_what_is_no_schedule_is_told(given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Schedule.of(given)


def test_numpys_numbers_make_schedules() -> None:
    assert Schedule.of(np.array([[0, 5], [1, 6]])) == Schedule.of([(0, 5), (1, 6)])
    assert Schedule.of(np.float32(5)) == Schedule.of(np.int64(5)) == Schedule.of(5)  # type: ignore[arg-type]


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_the_rows_of_a_frame_are_its_pairs(rows: int) -> None:
    pairs = [(0, 7), (1, 8), (5, 2)][:rows]
    frame = pl.DataFrame(pairs, schema=["s", "v"], orient="row")
    assert Schedule.of(frame) == Schedule.of(pairs)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="give pairs of"):
        Schedule.of(frame.with_columns(more="v"))  # type: ignore[arg-type]


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


@pytest.mark.parametrize("name", ["speed", "uplink_bps", "downlink_bps"])
@pytest.mark.parametrize(
    "given", [np.array([1e6, 2e6]), pl.Series([1e6, 2e6]), pl.DataFrame({"bps": [1e6]})], ids=type
)
def test_values_alone_are_no_pairs(name: str, given: Any) -> None:
    with pytest.raises(ValueError, match=f"{name} of a: (.|\n)*give pairs of"):
        Node("a", **{name: given})


def test_what_cannot_be_sampled_is_told() -> None:
    with pytest.raises(ValueError, match=r"5 is no function of time; for values, use Schedule.of"):
        Schedule.sampled(5, step_s=1, end_s=2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a value of the schedule is None; give a number"):
        Schedule.sampled(lambda at_s: None, step_s=1, end_s=2)  # type: ignore[arg-type, return-value]
    with pytest.raises(ValueError, match="step_s is '1'; give a number"):
        Schedule.sampled(math.sin, step_s="1", end_s=2)  # type: ignore[arg-type]


def test_every_value_needs_a_start() -> None:
    with pytest.raises(ValueError, match="1 starts for 2 values"):
        Schedule((0,), (1, 2))
    with pytest.raises(ValueError, match=r"starts_s is 0; give several, or use Schedule.of"):
        Schedule(0, 5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"starts_s is {0, 1}, where order counts; give several"):
        Schedule({0, 1}, (1, 2))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="path is 5; give a file"):
        Schedule.from_csv(5)  # type: ignore[arg-type]


def test_shows_what_it_is() -> None:
    assert str(Schedule.of(5e6)) == "5e+06"
    assert str(STEPS) == "0 to 4 in 3 steps over 3 s"
