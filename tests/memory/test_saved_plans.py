"""A plan is saved here and loaded there; planning takes less memory than plain PyTorch."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.memory.tracing.modules import Calling
from workbench import memory
from workbench.memory.fitting import Fitted, planning
from workbench.memory.fitting.loss import usual_loss
from workbench.utils.checks import UserError
from workbench.utils.files import ROOT


def perceptron(width: int = 32) -> nn.Module:
    layers = [layer for _ in range(4) for layer in (nn.Linear(width, width), nn.Tanh())]
    return nn.Sequential(*layers, nn.Dropout(0.2), nn.Linear(width, 4))


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Fitted]:
    x = torch.randn(512, 32)
    ours = memory.fit(perceptron(), x, "70%", optimizer="momentum")
    path = tmp_path_factory.mktemp("plans") / "plan.json"
    ours.fit.save(path)
    return path, ours


def test_a_loaded_plan_trains_as_the_module_and_measures_nothing(
    saved: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, ours = saved
    for name in ("profiled", "profile_loss"):
        monkeypatch.setattr(planning, name, None)
    plain, x = perceptron(), torch.randn(512, 32)
    there = memory.load_fit(path, copy.deepcopy(plain), x)
    assert there.fit.again_s == ours.fit.again_s > 0
    assert there.fit.peak_bytes == ours.fit.peak_bytes
    assert repr(there.fit) == repr(ours.fit)
    for module in (plain, there):
        torch.manual_seed(1)
        usual_loss(module(x)).backward()  # type: ignore[no-untyped-call]
    for one, other in zip(plain.parameters(), there.parameters(), strict=True):
        assert one.grad is not None
        assert other.grad is not None
        assert torch.equal(one.grad, other.grad)
    assert "recomputing took" in repr(there.fit)


def test_a_plan_of_a_recurrent_module_loads_whatever_was_traced_before(tmp_path: Path) -> None:
    module, x = nn.LSTM(8, 12, batch_first=True), torch.randn(4, 6, 8)
    first, later = (memory.fit(module, x, "1MB") for _ in range(2))
    assert first.fit.step.profile.digest == later.fit.step.profile.digest
    later.fit.save(tmp_path / "plan.json")
    code = (
        "import torch; from workbench import memory\n"
        "module = torch.nn.LSTM(8, 12, batch_first=True)\n"
        f"memory.load_fit({str(tmp_path / 'plan.json')!r}, module, torch.randn(4, 6, 8))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


@pytest.mark.parametrize(
    ("module", "x"),
    [
        (perceptron(), torch.randn(32, 32)),
        (perceptron(), torch.randn(512, 32).double()),
        (perceptron(16), torch.randn(512, 16)),
        (perceptron()[:4], torch.randn(512, 32)),  # type: ignore[index]
        (perceptron(), torch.randn(512, 32).requires_grad_()),
        (nn.Sequential(perceptron().requires_grad_(False), nn.Linear(4, 4)), torch.randn(512, 32)),
    ],
    ids=[
        "another batch",
        "another type",
        "another width",
        "fewer layers",
        "a learnt input",
        "frozen",
    ],
)
def test_a_plan_of_another_module_or_input_is_refused(
    saved: Any, module: nn.Module, x: torch.Tensor
) -> None:
    module = module.double() if x.dtype == torch.float64 else module
    with pytest.raises(UserError, match="the plan is not for Sequential on these inputs"):
        memory.load_fit(saved[0], module, x)


@pytest.mark.parametrize("count", [1, 3])
def test_a_plan_of_a_module_that_returns_two_is_refused_for_other_counts(
    count: int, tmp_path: Path
) -> None:
    def several(count: int) -> nn.Module:
        return Calling(lambda m, x: [m.a(x)] * count, a=nn.Linear(32, 4))

    def loss(returned: Any) -> torch.Tensor:
        return torch.stack([*returned]).square().mean()

    x = torch.randn(8, 32)
    memory.fit(several(2), x, "1MB", loss=loss).fit.save(tmp_path / "plan.json")
    with pytest.raises(UserError, match="the plan is not for Calling on these inputs"):
        memory.load_fit(tmp_path / "plan.json", several(count), x)


DAMAGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "another format": lambda plan: plan | {"format": "2"},
    "a list": lambda plan: [*plan],
    "a field": lambda plan: {key: value for key, value in plan.items() if key != "graph"},
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_files_that_are_not_plans_are_refused(saved: Any, tmp_path: Path, damage: str) -> None:
    plan = json.loads(saved[0].read_text())
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(DAMAGES[damage](plan)))
    with pytest.raises(UserError, match=r"is no plan that fit\.save"):
        memory.load_fit(path, perceptron(), torch.randn(512, 32))


PLANNING = """
import resource, torch
from torch import nn
from workbench import memory
layers = [layer for _ in range(12) for layer in (nn.Linear(256, 256), nn.Tanh())]
def most_bytes(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
memory.fit(nn.Sequential(*layers), torch.randn(64, 256), "100%", loss=lambda y: y.square().mean())
before = most_bytes()
x = torch.randn(16384, 256)
fit = memory.fit(nn.Sequential(*layers), x, "50%", loss=lambda y: y.square().mean()).fit
print(most_bytes() - before, fit.budget_bytes, fit.step.plain_bytes)
"""


def test_planning_takes_less_memory_than_its_budget() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PLANNING], cwd=ROOT, capture_output=True, text=True, check=True
    )
    took, budget, plain = map(int, done.stdout.split())
    assert plain > 200e6  # 12 layers of 17 MB each, and what Tanh makes of them
    assert took < budget
