"""Stored profiles: what tracing gives."""

from __future__ import annotations

import json

import pytest

from tests.long import usually
from workbench.profiles import analytic, inputs_of, moved_bytes, profile_model
from workbench.profiles.analytic import STORED, stored_costs, zoo_as_json
from workbench.zoo import MODELS, build


def test_every_model_is_stored() -> None:
    assert list(json.loads(STORED.read_text())) == list(MODELS)


@pytest.mark.parametrize("name", usually(("lenet5", "resnet20_cifar"), MODELS))
def test_what_is_stored_is_what_tracing_gives(name: str) -> None:
    shape, module = inputs_of(name, None), build(name, device="meta")
    kept = stored_costs(name)
    assert kept.profile == profile_model(name) == profile_model(module, shape, name=name)
    assert kept.moved.tolist() == moved_bytes(module, shape).tolist()
    assert kept.moved.dtype == moved_bytes(module, shape).dtype
    assert not kept.moved.flags.writeable


def test_only_the_models_own_input_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[str]()
    monkeypatch.setattr(analytic, "stored_costs", asked.append)
    profile_model("resnet20_cifar", (3, 48, 48))
    profile_model("resnet20_cifar", by="modules")
    assert not asked


def test_storing_again_gives_the_same_lines() -> None:
    few = ("lenet5", "squeezenet_cifar")
    again = zoo_as_json(few).decode().splitlines()
    assert len(again) == 2
    kept = STORED.read_text().splitlines()
    assert {line.strip("{},") for line in again} <= {line.strip("{},") for line in kept}
