"""The table of claims: every row valid, a wrong one refused by its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.claims.helpers import CLAIMS, TABLE
from workbench import claims
from workbench.claims import Claim, load_claims


class TestTheTableOfClaims:
    def test_holds_every_system_and_only_valid_rows(self) -> None:
        assert TABLE.columns == list(claims.COLUMNS)
        assert TABLE.height == 193
        assert set(TABLE["system"]) == {"dynacomm", "hiertrain", "edgegossip", "dlion", "olpb"}

    @pytest.mark.parametrize("one", CLAIMS, ids=lambda one: one.id)
    def test_the_papers_own_result_satisfies_each_claim(self, one: Claim) -> None:
        ours: float | bool = True
        if one.check == "range":
            ours = sum(one.bounds) / 2
        elif one.check != "order":
            ours = float(one.value)
        judged, reason = claims.verdict(one, ours)
        assert judged == {"near": "near", "input": "input"}.get(one.check, "holds")
        assert reason == ""

    @pytest.mark.parametrize(
        ("row", "message"),
        [
            (
                "toy.b,toy,,,,percent,1,nearly,",
                "line 3: unknown check 'nearly'. Did you mean 'near'",
            ),
            (
                "toy.b,toy,,,,percent,about 1,near,",
                "line 3: toy.b: the check 'near' needs a number",
            ),
            ("toy.b,toy,,,,percent,,near,", "line 3: toy.b: the check 'near' needs a number"),
            ("toy.b,toy,,,,percent,nan,input,", "line 3: toy.b: the check 'input' needs a number"),
            ("toy.b,toy,,,,x,1.5,range,", "line 3: toy.b: a range is LOW-HIGH, not '1.5'"),
            ("toy.b,toy,,,,x,2-1.5,range,", "line 3: toy.b: the range 2-1.5 runs from high to low"),
            ("other.b,toy,,,,x,1,near,", "line 3: the id 'other.b' does not begin with its system"),
            ("toy.a,toy,,,,percent,1,near,", "line 3: 'toy.a' stands in line 2 already"),
        ],
    )
    def test_refuses_a_wrong_row_by_its_line(self, row: str, message: str, tmp_path: Path) -> None:
        path = tmp_path / "claims.csv"
        path.write_text(f"{','.join(claims.COLUMNS)}\ntoy.a,toy,,,,percent,1,near,\n{row}\n")
        with pytest.raises(ValueError, match=message) as error:
            load_claims(path)
        assert str(error.value).startswith("claims.csv, ")

    def test_refuses_a_missing_column(self, tmp_path: Path) -> None:
        path = tmp_path / "claims.csv"
        path.write_text("id,system,value\n")
        with pytest.raises(ValueError, match=r"claims\.csv lacks the columns source, setting"):
            load_claims(path)
