"""Parameters refuse what is wrong in the user's terms and take what is right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest

from workbench.reproduction import systems
from workbench.reproduction.parameters import (
    PARAMETERS,
    Parameter,
    Parameters,
    check_known,
    declared,
    listing,
    own,
)

DYNACOMM = systems.parameters("dynacomm")


def parse(name: str, text: str, known: Mapping[str, Parameter] = DYNACOMM) -> object:
    return known[name].parse(text)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("scale", "smoke", "smoke"),
        ("seed", "0", 0),
        ("bandwidth_mbps", "1e3", 1000.0),
        ("bandwidth_mbps", "10000000", 1e7),
        ("bandwidth_mbps", ".5", 0.5),
        ("batch_size", " 65536 ", 65536),
        ("workers", "+8", 8),
        ("overhead_ms", "0", 0.0),
        ("model", "resnet152", "resnet152"),
        ("planner", "mg_wfbp", "mg_wfbp"),
        ("dataset", "digits", "digits"),
    ],
)
def test_takes_values_of_the_right_type(name: str, text: str, value: object) -> None:
    parsed = parse(name, text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("batch_size", "zero", "a whole number from 1 to 65536 (samples)"),
        ("batch_size", "-3", "from 1 to 65536"),
        ("batch_size", "2.5", "a whole number"),
        ("batch_size", "1e2", "a whole number"),
        ("batch_size", "1_0", "a whole number"),
        ("batch_size", "٣", "a whole number"),
        ("batch_size", "", "a whole number"),
        ("batch_size", "65537", "to 65536"),
        ("batch_size", "9" * 400, "to 65536"),
        ("workers", "0", "from 1 to 1024"),
        ("seed", "-1", "from 0"),
        ("bandwidth_mbps", "nan", "a number above 0 and up to 10000000 (Mbit/s)"),
        ("bandwidth_mbps", "inf", "a number above 0"),
        ("bandwidth_mbps", "1e999", "a number above 0"),
        ("bandwidth_mbps", "0", "above 0"),
        ("bandwidth_mbps", "fast", "a number"),
        ("bandwidth_mbps", "1,5", "has a comma; write decimals with a point"),
        ("overhead_ms", "-0.1", "from 0 to 60000 (ms)"),
        ("scale", "papr", "Did you mean 'paper'? Known: smoke, default, paper"),
        ("model", "resnet51", "Did you mean 'resnet50'?"),
        ("planner", "dynacom", "Did you mean 'dynacomm'?"),
        ("dataset", "minst", "Did you mean 'mnist'?"),
        ("dataset", "nowhere.npz", "there is no such file"),
    ],
)
def test_refuses_and_says_what_is_allowed(name: str, text: str, allowed: str) -> None:
    with pytest.raises(ValueError, match=name) as refusal:
        parse(name, text)
    assert allowed in str(refusal.value)


def test_unknown_name_lists_the_right_ones_with_their_ranges() -> None:
    with pytest.raises(ValueError, match="Did you mean 'batch_size'") as refusal:
        check_known("batchsize", PARAMETERS.values())
    message = str(refusal.value)
    assert all(name in message for name in PARAMETERS)
    assert "from 1 to 65536" in message
    assert "from 1 to 1024" in message
    with pytest.raises(ValueError, match="There are none to set"):
        check_known("batchsize", ())


def test_data_file_is_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.npz").touch()
    monkeypatch.chdir(tmp_path)
    assert parse("dataset", "mine.npz") == str(tmp_path / "mine.npz")


@pytest.mark.parametrize(
    ("default", "text", "value"),
    [(True, "false", False), (3, "-4", -4), (0.5, "2", 2.0), ("a", "b c", "b c")],
)
def test_own_parameter_has_the_type_of_its_default(
    default: object, text: str, value: object
) -> None:
    parsed = parse("mine", text, {"mine": own("mine", default)})
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("default", "text"), [(True, "1"), (3, "4.5"), (0.5, "nan"), (0.5, "half")]
)
def test_own_parameter_refuses_another_type(default: object, text: str) -> None:
    with pytest.raises(ValueError, match=f"mine={text}"):
        parse("mine", text, {"mine": own("mine", default)})


def test_own_parameter_is_a_plain_value() -> None:
    with pytest.raises(ValueError, match="must be a bool, int, float or str"):
        own("mine", [1, 2])


@pytest.mark.parametrize("wrong", ["32", 2.5, True, None])
def test_value_of_another_type_than_declared(wrong: object) -> None:
    with pytest.raises(ValueError, match="batch_size"):
        PARAMETERS["batch_size"].check(wrong)


def test_empty_range_is_refused() -> None:
    with pytest.raises(ValueError, match="range 2 to 1 is empty"):
        Parameter("", low=2, high=1)


def test_listing_has_a_line_each() -> None:
    assert len(listing(PARAMETERS.values()).splitlines()) == len(PARAMETERS)


@dataclass(frozen=True, kw_only=True)
class Oven(Parameters):
    seed: int = 1
    model: Annotated[str, PARAMETERS["model"].among({"cake": 1, "bread": 2}.keys)] = "cake"
    heat: Annotated[float, Parameter("of the oven", "°C", low=0, high=300, above=True)] = 180.0


class TestDeclaredParameters:
    def test_shared_ones_go_by_their_name(self) -> None:
        found = declared(Oven)
        assert found["seed"] == PARAMETERS["seed"]
        assert found["model"].help == PARAMETERS["model"].help
        assert found["heat"].allowed == "a number above 0 and up to 300 (°C)"

    def test_a_setting_is_checked(self) -> None:
        assert isinstance(Oven(heat=200).heat, float)
        with pytest.raises(ValueError, match="heat=0: must be a number above 0"):
            Oven(heat=0)
        with pytest.raises(ValueError, match="Did you mean 'bread'"):
            Oven(model="braed")

    def test_a_notebooks_variables_make_one(self) -> None:
        variables = {"seed": 2, "model": "bread", "heat": 90.0, "other": None}
        assert Oven.of(variables) == Oven(seed=2, model="bread", heat=90.0)
        del variables["heat"]
        with pytest.raises(ValueError, match="no value for heat; the parameters are seed, model"):
            Oven.of(variables)

    def test_an_undeclared_parameter_is_a_defect(self) -> None:
        class Kettle(Parameters):
            litres: float

        class Toaster(Parameters):
            seed: str

        for wrong in (Kettle, Toaster):
            with pytest.raises(TypeError, match="has no Parameter"):
                declared(wrong)
