"""What is varied gets where it decides, and everything else stays."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from workbench.edgegossip.paper import times
from workbench.edgegossip.paper.testbed import (
    DEPLOYMENTS,
    EPOCHS,
    LOAD_SEED,
    STATED,
    UPLINK_MBPS,
    Constants,
    Testbed,
)

ASSUMED = (
    *("points_per_platform", "backward_over_forward", "sustained_share", "operations_per_s"),
    *("overhead_ms", "window_s"),
)
STANDS = {
    **{name: STATED["assumed"][name] for name in ASSUMED},
    "deployments": DEPLOYMENTS,
    "uplink_mbps": UPLINK_MBPS,
    "epochs": EPOCHS,
    "intensity": Constants.load().intensity,
    "host_ms": Constants.load().host_ms,
    "peers": STATED["assumed"]["peers"],
    "seed": LOAD_SEED,
}


def test_each_number_is_varied_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, object]] = []

    def speedups(
        testbed: Testbed,
        epochs: int = EPOCHS,
        *,
        deployments: Sequence[int] = DEPLOYMENTS,
        uplink_mbps: float = UPLINK_MBPS,
        seed: int = LOAD_SEED,
    ) -> dict[tuple[str, int], float]:
        assumed = testbed.facts["assumed"]
        assert {**testbed.facts, "assumed": None} == {**STATED, "assumed": None}
        asked.append(
            {
                **{name: assumed[name] for name in (*ASSUMED, "peers")},
                **{"deployments": tuple(deployments), "uplink_mbps": uplink_mbps},
                **{"epochs": epochs, "seed": seed, **vars(testbed.constants)},
            }
        )
        return {("m", 4): float(len(asked)), ("m", 8): 3.0 * len(asked)}

    monkeypatch.setattr(times, "speedups", speedups)
    frame = times.sensitivity(processes=1)
    changed = [
        {name: value for name, value in call.items() if value != STANDS[name]} for call in asked
    ]
    wanted: list[dict[str, object]] = []
    for name in times.NUMBERS:
        stands = STANDS[name]
        for factor in (0.5, 2.0):
            if isinstance(stands, tuple):
                larger = (int(factor * count) for count in stands[1:])
                wanted.append({name: (stands[0], *larger)})
            else:
                wanted.append({name: pytest.approx(factor * stands)})
    dealt: dict[str, object] = {"points_per_platform": None}
    wanted += [{"peers": 4}, {"peers": None}, dealt, {**dealt, "peers": None}]
    assert changed == [*wanted, {"seed": 2}, {"seed": 3}]
    assert frame["factor"].to_list() == [0.5, 2.0] * len(times.NUMBERS) + [None] * 6
    assert frame["number"].to_list()[:2] == ["points on each platform"] * 2
    assert frame["speedup"].to_list() == [2.0 * (at + 1) for at in range(len(asked))]
    assert (frame["least"] < frame["speedup"]).all()
    assert (frame["most"] > frame["speedup"]).all()
