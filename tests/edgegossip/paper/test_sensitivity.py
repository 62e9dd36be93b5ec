"""What is varied gets where it decides, and everything else stays."""

from collections.abc import Sequence

import pytest

from workbench.edgegossip.paper import constants as room
from workbench.edgegossip.paper.testbed import (
    DEPLOYMENTS,
    EPOCHS,
    LOAD_SEED,
    STATED,
    UPLINK_MBPS,
    Constants,
    Testbed,
)
from workbench.reproduction.sweep import ExperimentInterrupted

STANDS = (
    *(STATED["assumed"][name] for name in room.ASSUMED),
    DEPLOYMENTS,
    UPLINK_MBPS,
    EPOCHS,
    Constants.load().intensity,
    Constants.load().host_ms,
    STATED["assumed"]["peers"],
    LOAD_SEED,
)
CHOSEN = len(STANDS) - 2
"""How many are varied by factors; the last two are not."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """What the cost model was asked for, in place of its answer."""
    calls: list[tuple[object, ...]] = []

    def speedups(
        testbed: Testbed,
        epochs: int = EPOCHS,
        *,
        deployments: Sequence[int] = DEPLOYMENTS,
        uplink_mbps: float = UPLINK_MBPS,
        seed: int = LOAD_SEED,
    ) -> dict[tuple[str, int], float]:
        assumed, constants = testbed.facts["assumed"], testbed.constants
        assert {**testbed.facts, "assumed": None} == {**STATED, "assumed": None}
        calls.append(
            (
                *(assumed[name] for name in room.ASSUMED),
                tuple(deployments),
                uplink_mbps,
                epochs,
                constants.intensity,
                constants.host_ms,
                assumed["peers"],
                seed,
            )
        )
        return {("m", 4): float(len(calls)), ("m", 8): 3.0 * len(calls)}

    monkeypatch.setattr(room, "speedups", speedups)
    return calls


def test_each_number_is_halved_and_doubled_alone(asked: list[tuple[object, ...]]) -> None:
    frame = room.sensitivity(processes=1)
    first, *varied = asked
    assert first == STANDS
    otherwise = varied[2 * CHOSEN :]
    for at, stands in enumerate(STANDS[:CHOSEN]):
        for factor, call in zip((0.5, 2.0), varied[at : 2 * CHOSEN : CHOSEN], strict=True):
            wanted = (
                (stands[0], *(int(factor * one) for one in stands[1:]))
                if isinstance(stands, tuple)
                else pytest.approx(factor * stands)
            )
            assert call[at] == wanted
            assert call[:at] + call[at + 1 :] == STANDS[:at] + STANDS[at + 1 :]
    # Other peers, data dealt out, both, other co-runners.
    assert [(call[0], *call[-2:]) for call in otherwise] == [
        (12_500, 4, 1),
        (12_500, None, 1),
        (None, 2, 1),
        (None, None, 1),
        (12_500, 2, 2),
        (12_500, 2, 3),
    ]
    assert {call[1:CHOSEN] for call in otherwise} == {STANDS[1:CHOSEN]}
    assert frame["factor"].to_list() == [0.5, 1.0, 2.0] * CHOSEN + [None] * 6
    assert frame.filter(factor=1.0)["speedup"].to_list() == [2.0] * CHOSEN
    assert (frame["least"] < frame["speedup"]).all()
    assert (frame["most"] > frame["speedup"]).all()


def test_ctrl_c_leaves_what_was_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    factors = list[float]()

    def third_is_interrupted(testbed: Testbed, *_: object, **__: object) -> dict[str, float]:
        if len(factors) == 2:
            raise KeyboardInterrupt
        factors.append(2.0)
        return {"m": 2.0}

    monkeypatch.setattr(room, "speedups", third_is_interrupted)
    with pytest.raises(ExperimentInterrupted) as stopped:
        room.sensitivity(processes=1)
    kept = stopped.value.frame
    assert kept["factor"].to_list() == [0.5, *[1.0] * CHOSEN]
    assert set(kept["speedup"]) == {2.0}
