"""What is varied gets where it decides, and everything else stays."""

from collections.abc import Sequence

import polars as pl
import pytest

from workbench.edgegossip.paper import sensitivity
from workbench.edgegossip.paper.calibration import DEPLOYMENTS, EPOCHS
from workbench.edgegossip.paper.testbed import STATED, UPLINK_MBPS, Constants, Testbed

STANDS = (
    UPLINK_MBPS,
    STATED["assumed"]["sustained_share"],
    STATED["assumed"]["operations_per_s"],
    EPOCHS,
    Constants.load().intensity,
    DEPLOYMENTS,
    Constants.load().host_ms,
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """What the cost model was asked for, in place of its answer."""
    calls: list[tuple[object, ...]] = []

    def speedups(
        testbed: Testbed, epochs: int, *, deployments: Sequence[int], uplink_mbps: float
    ) -> dict[tuple[str, int], float]:
        assumed, constants = testbed.facts["assumed"], testbed.constants
        assert {**testbed.facts, "assumed": None} == {**STATED, "assumed": None}
        calls.append(
            (
                uplink_mbps,
                assumed["sustained_share"],
                assumed["operations_per_s"],
                epochs,
                constants.intensity,
                tuple(deployments),
                constants.host_ms,
            )
        )
        return {("m", 4): float(len(calls)), ("m", 8): 3.0 * len(calls)}

    monkeypatch.setattr(sensitivity, "speedups", speedups)
    return calls


def test_each_number_is_halved_and_doubled_alone(asked: list[tuple[object, ...]]) -> None:
    frame = sensitivity.sensitivity(processes=1)
    first, *varied = asked
    assert first == STANDS
    assert len(varied) == 2 * len(STANDS)
    for at, stands in enumerate(STANDS):
        for factor, call in zip((0.5, 2.0), varied[at :: len(STANDS)], strict=True):
            wanted = (
                (stands[0], *(int(factor * one) for one in stands[1:]))
                if isinstance(stands, tuple)
                else pytest.approx(factor * stands)
            )
            assert call[at] == wanted
            assert call[:at] + call[at + 1 :] == STANDS[:at] + STANDS[at + 1 :]
    assert frame["factor"].to_list() == [0.5, 1.0, 2.0] * len(STANDS)
    assert frame.filter(factor=1.0)["speedup"].to_list() == [2.0] * len(STANDS)
    assert (frame["least"] < frame["speedup"]).all()
    assert (frame["most"] > frame["speedup"]).all()


def test_in_words_by_hand() -> None:
    rows = [("a", 0.5, 2.6), ("a", 1.0, 2.7), ("a", 2.0, 2.8)]
    rows += [("b", 0.5, 3.1), ("b", 1.0, 2.7), ("b", 2.0, 1.9)]
    frame = pl.DataFrame(rows, schema=["number", "factor", "speedup"], orient="row")
    assert sensitivity.sensitivity_in_words(frame) == (
        "The mean speed-up is 2.70; at half and at double a number, all else as it is: "
        "b 3.10 and 1.90; a 2.60 and 2.80."
    )
