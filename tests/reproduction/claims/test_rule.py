"""The rule that judges claims, by cases worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.reproduction.claims.helpers import CLAIMS, claim
from workbench.reproduction.claims import Answer, Claim, judge, verdict

UNITS = st.sampled_from(["percent", "percentage points", "x", "samples", "count", "ms"])
NUMBERS = st.floats(-1e3, 1e3)


@pytest.mark.parametrize(
    ("unit", "paper", "inside", "outside"),
    [
        ("percent", "42.86", 38.574, 38.5),  # 10 % is 4.286
        ("percent", "20", 23.0, 23.01),  # 3 points are more than 10 %
        ("percent", "0", -1.0, -1.01),
        ("percent", "3", 4.0, 4.01),  # below 10 a point is allowed
        ("percent", "10", 13.0, 13.01),
        ("percent", "-21", -24.0, -24.01),
        ("percentage points", "0", 1.0, 1.01),
        ("x", "7.2", 8.28, 8.29),  # 15 % is 1.08
        ("samples", "24", 30.0, 30.01),  # 25 % is 6
        ("count", "313", 344.3, 344.4),  # 10 % is 31.3
        ("exponent", "3", 2.7, 2.69),
        ("ms", "0.084", 0.0924, 0.0925),
    ],
)
def test_near_ends_where_the_rule_says(
    unit: str, paper: str, inside: float, outside: float
) -> None:
    assert verdict(claim(paper, unit), inside) == ("near", "")
    assert verdict(claim(paper, unit), outside)[0] != "near"


@given(paper=NUMBERS, unit=UNITS, off=NUMBERS, share=st.floats(0, 1))
def test_coming_closer_to_the_paper_never_leaves_near(
    paper: float, unit: str, off: float, share: float
) -> None:
    stated = claim(repr(paper), unit)
    assume(verdict(stated, paper + off)[0] == "near")
    assert verdict(stated, paper + off * share)[0] == "near"


@given(paper=NUMBERS, ours=NUMBERS, other=st.sampled_from(CLAIMS))
def test_rule_is_the_same_for_every_claim(paper: float, ours: float, other: Claim) -> None:
    named = Claim(other.id, other.system, "", "", "", "percent", repr(paper), "near")
    assert verdict(named, ours) == verdict(claim(repr(paper)), ours)


@pytest.mark.parametrize(
    ("unit", "paper", "ours", "expected"),
    [
        ("percent", "40", 1.0, "trend"),
        ("percent", "40", 0.0, "not reproduced"),  # the same as nothing is not a reduction
        ("percent", "40", -1.0, "not reproduced"),
        ("percent", "-21", -1.0, "trend"),
        ("percent", "-21", 1.0, "not reproduced"),
        ("percent", "0", 4.0, "not reproduced"),  # the paper's ordering is equality
        ("x", "7.2", 1.1, "trend"),
        ("x", "7.2", 1.0, "not reproduced"),
        ("x", "7.2", 0.9, "not reproduced"),
        ("samples", "24", 40.0, "not reproduced"),  # nothing to be ordered by
        ("exponent", "3", 2.0, "not reproduced"),
    ],
)
def test_a_miss_is_a_trend_on_the_papers_side_of_no_difference(
    unit: str, paper: str, ours: float, expected: str
) -> None:
    judged, reason = verdict(claim(paper, unit), ours)
    assert judged == expected
    assert reason


class TestSiblings:
    def test_a_miss_must_stand_to_them_as_in_the_paper(self) -> None:
        best, second = claim("40"), claim("24", id="toy.a.two")
        assert verdict(best, 30.0, [(second, 29.0)])[0] == "trend"
        judged, reason = verdict(best, 30.0, [(second, 31.0)])
        assert judged == "not reproduced"
        assert reason == "10 points below (near: 4), not above two as in the paper"
        assert verdict(best, 30.0, [(second, 30.0)])[0] == "not reproduced"

    def test_those_that_tie_in_the_paper_do_not_count(self) -> None:
        tied = claim("36.5", id="toy.a.two")  # 3.5 apart, near is 4
        assert verdict(claim("40"), 30.0, [(tied, 31.0)])[0] == "trend"

    def test_they_order_a_unit_without_reference(self) -> None:
        least, most = claim("65", "count"), claim("153", "count", id="toy.a.two")
        assert verdict(least, 80.0, [(most, 200.0)])[0] == "trend"
        assert verdict(least, 80.0, [(most, 70.0)])[0] == "not reproduced"

    def test_they_do_not_spoil_what_is_near(self) -> None:
        assert verdict(claim("40"), 37.0, [(claim("30", id="toy.a.two"), 39.0)])[0] == "near"

    @pytest.mark.parametrize(
        ("other", "is_sibling"),
        [
            (claim("20", id="toy.a.two"), True),
            (claim("20", id="toy.a.two", unit="x"), False),
            (claim("20", id="toy.a.two", check="at_most"), False),
            (claim("20", id="toy.b.one"), False),
            (claim("20", id="toy.a.one.more"), False),
        ],
    )
    def test_they_differ_in_the_last_part_only_and_share_unit_and_check(
        self, other: Claim, is_sibling: bool
    ) -> None:
        best = claim("40")
        answers = {best.id: Answer(30.0), other.id: Answer(31.0)}
        expected = "not reproduced" if is_sibling else "trend"
        assert judge(best, [best, other], answers)[0] == expected


@pytest.mark.parametrize(
    ("value", "check", "ours", "miss"),
    [
        ("0.3", "at_most", 0.3, ""),
        ("0.3", "at_most", 0.5, "0.2 x above 0.3"),
        ("2.72", "at_least", 2.72, ""),
        ("2.72", "at_least", 2.71, "0.01 x below 2.72"),
        ("1.5-2", "range", 1.5, ""),
        ("1.5-2", "range", 2.0, ""),
        ("1.5-2", "range", 2.01, "0.01 x above 2"),
        ("1.5-2", "range", 1.25, "0.25 x below 1.5"),
        ("-2--1", "range", -1.5, ""),
        ("a<b", "order", True, ""),
        ("a<b", "order", False, "the order does not hold"),
    ],
)
def test_other_checks_are_literal_and_say_by_how_much_ours_misses(
    value: str, check: str, ours: float, miss: str
) -> None:
    expected = ("not reproduced", miss) if miss else ("holds", "")
    assert verdict(claim(value, "x", check), ours) == expected


def test_input_is_no_result() -> None:
    assert verdict(claim("4.5", "x", "input"), 99.0) == ("input", "")


def test_a_truth_value_is_no_number_nor_the_other_way_round() -> None:
    with pytest.raises(TypeError, match=r"toy\.a\.one: ours is True, .* 'near' is a number"):
        verdict(claim("1"), True)
    with pytest.raises(TypeError, match=r"ours is 1\.0, .* 'order' is true or false"):
        verdict(claim("a<b", "order", "order"), 1.0)
