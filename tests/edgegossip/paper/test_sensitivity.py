"""What is varied gets where it decides, and everything else stays."""

from dataclasses import fields

from workbench.edgegossip.paper import times
from workbench.edgegossip.paper.testbed import DEPLOYMENTS, EPOCHS, STATED, UPLINK_MBPS, Constants


def test_each_number_is_varied_alone() -> None:
    fitted, stated = Constants.load(), STATED["assumed"]
    usual = {"deployments": DEPLOYMENTS[1:], "uplink_mbps": UPLINK_MBPS, "epochs": EPOCHS}
    changes = []
    for point in times.variations():
        testbed, options = point["testbed"], dict(point["options"])
        if "deployments" in options:
            first, *options["deployments"] = options["deployments"]
            assert first == DEPLOYMENTS[0]
        changed = {
            name: (value, stated[name])
            for name, value in testbed.assumed.items()
            if value != stated[name]
        }
        for name in (each.name for each in fields(Constants)):
            value, before = getattr(testbed.constants, name), getattr(fitted, name)
            changed |= {name: (value, before)} if value != before else {}
        changed |= {name: (value, usual.get(name)) for name, value in options.items()}
        if (factor := point["factor"]) is not None:
            ((value, before),) = changed.values()  # alone
            if isinstance(value, list):
                assert value == [factor * count for count in before]
            else:
                assert value == factor * before
        changes.append(tuple(changed))
    numbers = [*times.ASSUMED, "deployments", "uplink_mbps", "epochs", *times.CONSTANTS]
    assert changes[:-6] == [(name,) for name in numbers for _ in times.FACTORS]
    peers, dealt, seed = ("peers",), ("points_per_platform",), ("seed",)
    assert changes[-6:] == [peers, peers, dealt, dealt + peers, seed, seed]
