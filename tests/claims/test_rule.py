"""Answers that say something, and the rule that judges them, by cases worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.claims.helpers import CLAIMS, claim
from workbench import claims
from workbench.claims import Answer, Claim

UNITS = ("percent", "percentage points", "x", "samples")


class TestNear:
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
    def test_ends_where_the_rule_says(
        self, unit: str, paper: str, inside: float, outside: float
    ) -> None:
        assert claims.verdict(claim(paper, unit), inside) == ("near", "")
        assert claims.verdict(claim(paper, unit), outside)[0] != "near"

    @given(
        paper=st.floats(-1e6, 1e6),
        unit=st.sampled_from([*UNITS, "count", "ms", "exponent"]),
    )
    def test_the_papers_own_value_is_always_near(self, paper: float, unit: str) -> None:
        assert claims.verdict(claim(repr(paper), unit), paper)[0] == "near"

    @given(
        paper=st.floats(-1e3, 1e3),
        unit=st.sampled_from([*UNITS, "count"]),
        gap=st.floats(0, 1e3),
        share=st.floats(0, 1),
        side=st.sampled_from([-1, 1]),
    )
    def test_coming_closer_never_leaves_it(
        self, paper: float, unit: str, gap: float, share: float, side: int
    ) -> None:
        far, close = paper + side * gap, paper + side * gap * share
        assume(claims.verdict(claim(repr(paper), unit), far)[0] == "near")
        assert claims.verdict(claim(repr(paper), unit), close)[0] == "near"

    @given(paper=st.floats(-1e3, 1e3), ours=st.floats(-1e3, 1e3), one=st.sampled_from(CLAIMS))
    def test_does_not_ask_which_claim_it_judges(
        self, paper: float, ours: float, one: Claim
    ) -> None:
        named = Claim(one.id, one.system, "", "", "", "percent", repr(paper), "near")
        assert claims.verdict(named, ours) == claims.verdict(claim(repr(paper)), ours)


class TestOrdering:
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
        self, unit: str, paper: str, ours: float, expected: str
    ) -> None:
        judged, reason = claims.verdict(claim(paper, unit), ours)
        assert judged == expected
        assert reason

    def test_a_miss_must_stand_to_its_siblings_as_in_the_paper(self) -> None:
        best, second = claim("40"), claim("24", id="toy.a.two")
        assert claims.verdict(best, 30.0, [(second, 29.0)])[0] == "trend"
        judged, reason = claims.verdict(best, 30.0, [(second, 31.0)])
        assert judged == "not reproduced"
        assert reason == "10 points below (near: 4), not above two as in the paper"
        assert claims.verdict(best, 30.0, [(second, 30.0)])[0] == "not reproduced"

    def test_siblings_that_tie_in_the_paper_do_not_count(self) -> None:
        one, other = claim("40"), claim("36.5", id="toy.a.two")  # 3.5 apart, near is 4
        assert claims.verdict(one, 30.0, [(other, 31.0)])[0] == "trend"

    def test_siblings_alone_order_a_unit_without_reference(self) -> None:
        one, other = claim("65", "count"), claim("153", "count", id="toy.a.two")
        assert claims.verdict(one, 80.0, [(other, 200.0)])[0] == "trend"
        assert claims.verdict(one, 80.0, [(other, 70.0)])[0] == "not reproduced"

    def test_an_ordering_does_not_spoil_what_is_near(self) -> None:
        one, other = claim("40"), claim("30", id="toy.a.two")
        assert claims.verdict(one, 37.0, [(other, 39.0)])[0] == "near"

    def test_siblings_differ_in_the_last_part_only_and_share_unit_and_check(self) -> None:
        one = claim("40")
        others = [
            one,
            claim("1", id="toy.a.two"),
            claim("1", id="toy.a.three", unit="x"),
            claim("1", id="toy.a.four", check="at_most"),
            claim("1", id="toy.b.one"),
            claim("1", id="toy.a.one.more"),
        ]
        assert [other.id for other in claims.siblings(one, others)] == ["toy.a.two"]


class TestLiteralChecks:
    @pytest.mark.parametrize(
        ("value", "check", "ours", "expected"),
        [
            ("0.3", "at_most", 0.3, "holds"),
            ("0.3", "at_most", 0.2, "holds"),
            ("0.3", "at_most", 0.3001, "not reproduced"),
            ("2.72", "at_least", 2.72, "holds"),
            ("2.72", "at_least", 2.71, "not reproduced"),
            ("1.5-2", "range", 1.5, "holds"),
            ("1.5-2", "range", 2.0, "holds"),
            ("1.5-2", "range", 2.01, "not reproduced"),
            ("1.5-2", "range", 1.49, "not reproduced"),
            ("-2--1", "range", -1.5, "holds"),
            ("a<b", "order", True, "holds"),
            ("a<b", "order", False, "not reproduced"),
            ("4.5", "input", 99.0, "input"),
        ],
    )
    def test_are_literal(self, value: str, check: str, ours: float, expected: str) -> None:
        judged, reason = claims.verdict(claim(value, "x", check), ours)
        assert judged == expected
        assert bool(reason) == (expected == "not reproduced")

    def test_say_by_how_much_they_miss(self) -> None:
        assert claims.verdict(claim("0.3", "ms", "at_most"), 0.5)[1] == "0.2 ms above 0.3"
        assert claims.verdict(claim("1.5-2", "x", "range"), 1.25)[1] == "0.25 x below 1.5"

    def test_a_truth_value_is_no_number_nor_the_other_way_round(self) -> None:
        with pytest.raises(TypeError, match=r"toy\.a\.one: ours is True, .* 'near' is a number"):
            claims.verdict(claim("1"), True)
        with pytest.raises(TypeError, match=r"ours is 1\.0, .* 'order' is true or false"):
            claims.verdict(claim("a<b", "order", "order"), 1.0)


class TestAnswer:
    def test_takes_numpys_values_for_what_they_are(self) -> None:
        holds, number = Answer(np.bool_(True)), Answer(np.float64(1.5))  # type: ignore[arg-type]
        assert holds.ours is True
        assert type(number.ours) is float

    def test_refuses_what_says_nothing(self) -> None:
        with pytest.raises(AssertionError, match="without a value says why"):
            Answer()
        with pytest.raises(AssertionError, match="or did not run; not both"):
            Answer(1.0, not_run="needs the training runtime")
        with pytest.raises(AssertionError, match="ours is nan"):
            Answer(float("nan"))
