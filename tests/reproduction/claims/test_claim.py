"""The table of claims, and answers that say something."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.reproduction.claims.helpers import CLAIMS, TABLE
from workbench.reproduction.claims import Answer, Claim, load_claims, paper_values, verdict
from workbench.utils import files
from workbench.utils.checks import UserError


def test_table_has_claims_on_every_system() -> None:
    assert TABLE.height == 305
    assert set(TABLE["system"]) == {"dynacomm", "hiertrain", "edgegossip", "dlion", "olpb"}
    assert not TABLE["setting"].str.contains("^same").any()  # each row is read alone


def test_values_of_claims_by_a_template() -> None:
    stated = paper_values("dynacomm.fwd32.{model}.{planner}")
    assert stated.columns == ["model", "planner", "paper"]
    of_fig5 = TABLE.filter(TABLE["id"].str.starts_with("dynacomm.fwd32."))
    assert stated["paper"].to_list() == of_fig5["value"].cast(float).to_list()
    assert stated.row(0)[:2] == ("vgg19", "dynacomm")
    assert paper_values("dynacomm.fwd7.{model}.{planner}").is_empty()
    assert paper_values("olpb.fig12.{claim}").is_empty()  # a range and orders, no numbers


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_the_papers_own_result_satisfies_each_claim(claim: Claim) -> None:
    ours: float | bool = True
    if claim.check == "range":
        ours = sum(claim.bounds) / 2
    elif claim.check != "order":
        ours = float(claim.value)
    wanted = {"near": "near", "input": "input"}.get(claim.check, "holds")
    assert verdict(claim, ours) == (wanted, "")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("toy.b,toy,,,,percent,1,nearly,", "unknown check 'nearly'. Did you mean 'near'"),
        ("toy.b,toy,,,,percent,about 1,near,", "toy.b: the check 'near' needs a number"),
        ("toy.b,toy,,,,percent,,near,", "toy.b: the check 'near' needs a number"),
        ("toy.b,toy,,,,percent,nan,input,", "toy.b: the check 'input' needs a number"),
        ("toy.b,toy,,,,x,1.5,range,", "toy.b: a range is LOW-HIGH, not '1.5'"),
        ("toy.b,toy,,,,x,2-1.5,range,", "toy.b: the range 2-1.5 runs from high to low"),
        ("other.b,toy,,,,x,1,near,", "the id 'other.b' does not begin with its system"),
        ("toy.a,toy,,,,percent,1,near,", "'toy.a' stands in line 2 already"),
    ],
)
def test_wrong_row_is_refused_by_its_line(
    row: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "DATA", tmp_path)
    lines = [",".join(TABLE.columns), "toy.a,toy,,,,percent,1,near,", row]
    (tmp_path / "claims.csv").write_text("\n".join(lines))
    with pytest.raises(UserError, match=f"claims.csv, line 3: {message}"):
        load_claims()


def test_numpy_scalars_become_pythons() -> None:
    holds, number = Answer(np.bool_(True)), Answer(np.float64(1.5))  # type: ignore[arg-type]
    assert holds.ours is True
    assert type(number.ours) is float


def test_answer_has_a_finite_value_or_says_why_not() -> None:
    with pytest.raises(AssertionError, match="without a value says why"):
        Answer()
    with pytest.raises(AssertionError, match="or did not run; not both"):
        Answer(1.0, not_run="needs the training runtime")
    with pytest.raises(AssertionError, match="ours is nan"):
        Answer(float("nan"))


def test_mean_over_seeds_has_its_standard_error() -> None:
    answer = Answer.over_seeds([30, 34.5, 39])
    assert (answer.ours, answer.seeds) == (34.5, 3)
    assert answer.spread == pytest.approx(4.5 / 3**0.5)
    assert Answer.over_seeds([30]).spread is None
