"""DynaComm's explorer says what the plan takes."""

from __future__ import annotations

from workbench.dynacomm import explorer
from workbench.dynacomm.explorer import Setting


def test_it_says_what_the_plan_takes() -> None:
    title = explorer.draw(Setting())["vconcat"][0]["title"]
    seconds = explorer.trace(Setting()).end_s
    assert title == [
        f"ResNet-152, DynaComm: {seconds:.3g} s, 36.7 % saved",
        "8 pulls, 5 pushes (cost model)",
    ]
