"""Measured layer times: exact against a clock of FLOPs, plausible against the wall's."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from tests.profiles.modules import DataDependent, Functional, Siamese
from workbench.profiles import UntraceableError, measure_layer_times, profile_model, stopwatch
from workbench.zoo import blocks, build, inception, resnet


class FlopClock:
    """A clock that does not show seconds but the FLOPs done so far."""

    def __init__(self, counter: FlopCounterMode) -> None:
        self.counter = counter

    def mark(self) -> int:
        return self.counter.get_total_flops()

    def gaps_s(self, marks: Sequence[int]) -> list[float]:
        return [float(later - earlier) for earlier, later in pairwise(marks)]


@contextmanager
def flops_for_seconds(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # A CPU's own attention kernels are unknown to PyTorch's counter.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        monkeypatch.setattr(stopwatch, "clock_for", lambda _: FlopClock(counter))
        yield


MODULES: dict[str, tuple[str | nn.Module, tuple[int, ...] | tuple[tuple[int, ...], ...]]] = {
    "lenet5": ("lenet5", (1, 28, 28)),
    "branches": (
        nn.Sequential(
            blocks.conv_norm(3, 8, 3, relu=nn.ReLU()),
            inception.Inception(8, 2, (3, 4), (2, 3), 5),
            inception.Inception(14, 2, (3, 4), (2, 3), 5),
        ),
        (3, 8, 8),
    ),
    "shortcuts": (
        nn.Sequential(
            nn.Conv2d(3, 4, 3),
            resnet.Residual(nn.Conv2d(4, 8, 3, 2, 1), nn.Conv2d(4, 8, 1, 2)),
            resnet.Residual(
                nn.Sequential(nn.Conv2d(8, 2, 1), nn.BatchNorm2d(2), nn.Conv2d(2, 8, 1)),
                nn.Identity(),
            ),
        ),
        (3, 10, 10),
    ),
    "frozen below": (
        nn.Sequential(nn.Linear(4, 4).requires_grad_(False), nn.ReLU(), nn.Linear(4, 3)),
        (4,),
    ),
    "frozen above": (nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3).requires_grad_(False)), (4,)),
    "shared": (Siamese(), ((4,), (4,))),
    "functional": (Functional(), (5, 4)),
    "attention": (nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), (5, 8)),
}


@pytest.mark.parametrize("kind", MODULES)
def test_laps_are_the_layers(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With FLOPs for seconds, every layer takes exactly what the profile says."""
    model, shape = MODULES[kind]
    profile = profile_model(model, shape)
    with flops_for_seconds(monkeypatch):
        times = measure_layer_times(model, 2, shape, repeats=2)
    assert times.layers == profile.layers
    for way in ("forward", "backward"):
        assert times.table[f"{way}_s"].equals(
            2.0 * profile.table[f"{way}_flops"], check_names=False
        )
    assert times.layers_over_iteration == 1
    assert times.table["forward_iqr_s"].sum() == times.iteration_iqr_s == 0


def test_laps_are_the_modules_where_flow_depends_on_data(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UntraceableError, match=r"measure_layer_times\(…, by=\"modules\"\)"):
        measure_layer_times(DataDependent(), 2, (4,))
    profile = profile_model(DataDependent(), (4,), by="modules")
    with flops_for_seconds(monkeypatch):
        times = measure_layer_times(DataDependent(), 2, (4,), by="modules")
    assert times.layers == profile.layers == ("stem", "left", "head")
    assert times.table["forward_s"].to_list() == [64, 64, 64]
    assert times.table["backward_s"].to_list() == [64, 128, 128]


def test_a_busy_machine_shows_in_the_spread_and_not_in_the_medians(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three of seven turns are slowed down, here one pass and there the other."""
    quiet = (1.0, 1.0)
    turns = iter([quiet, (8.0, 1.0), (1.0, 6.0), quiet, (9.0, 7.0), quiet, quiet])
    slow: list[float] = []

    def whole(*_: object) -> float:
        slow[:] = next(turns)
        return slow[0]

    monkeypatch.setattr(stopwatch, "whole_iteration_s", whole)
    monkeypatch.setattr(
        stopwatch, "layered_iteration_s", lambda *_: ([0.1 * slow[1]] * 5, [0.1 * slow[1]] * 5)
    )
    times = measure_layer_times("lenet5", 1, warmup=0, repeats=7)
    assert times.table["forward_s"].to_list() == pytest.approx([0.1] * 5)
    assert times.iteration_s == 1.0
    assert times.layers_over_iteration == pytest.approx(1.0)
    assert times.iteration_iqr_s is not None
    assert times.iteration_iqr_s > 1
    assert times.table["backward_iqr_s"].min() > 0.1  # type: ignore[operator]


def test_progress_and_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[tuple[str, int, int]] = []
    measure_layer_times("lenet5", 1, warmup=2, repeats=3, progress=lambda *step: steps.append(step))
    assert steps == [("lenet5 on cpu", done, 5) for done in range(6)]


def test_user_module_is_not_touched() -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout()).eval()
    before = copy.deepcopy(module.state_dict())
    with torch.no_grad():
        measure_layer_times(module, 2, (3, 8, 8), repeats=1)
    assert not any(part.training for part in module.modules())
    assert all(parameter.grad is None for parameter in module.parameters())
    assert all(torch.equal(tensor, before[key]) for key, tensor in module.state_dict().items())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size is 0"),
        ({"batch_size": 1, "repeats": 0}, "repeats=0"),
        ({"batch_size": 1, "warmup": -1}, "warmup=-1"),
        ({"batch_size": 1, "device": "tpu"}, "'cpu' and 'cuda' can be measured"),
        ({"batch_size": 1, "by": "layer"}, "unknown way of finding layers 'layer'"),
        ({"batch_size": 1, "input_shape": (1, 32, 32)}, "does not fit lenet5: at layer '7'"),
    ],
)
def test_refusals(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        measure_layer_times("lenet5", **options)  # type: ignore[arg-type]


def test_a_module_without_weights_cannot_be_run() -> None:
    with pytest.raises(ValueError, match="on the meta device and holds no weights"):
        measure_layer_times(build("lenet5", device="meta"), 1, (1, 28, 28))


def test_an_absent_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="PyTorch finds no CUDA GPU on this machine"):
        measure_layer_times("lenet5", 1, device="cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_cuda() -> None:
    times = measure_layer_times("resnet50", 32, device="cuda", warmup=3, repeats=9)
    assert len(times) == 50
    assert times.layers_over_iteration == pytest.approx(1, abs=0.15)


def test_cuda_clock_reads_events_after_the_gpu_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU's events, played by hand: queued in order, readable only after synchronising."""
    log: list[str] = []

    class Event:
        def __init__(self, *, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            log.append("record")
            self.at_ms = 5.0 * log.count("record") ** 2

        def elapsed_time(self, end: Event) -> float:
            assert log[-1] == "synchronize"
            return end.at_ms - self.at_ms

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: log.append("synchronize"))
    clock = stopwatch.clock_for("cuda")
    laps = stopwatch.Laps.start(clock, 1)
    laps.switch(1)  # the same layer: no event
    laps.switch(2)
    laps.switch(1)
    laps.stop()
    assert log == ["record"] * 4
    assert laps.seconds(2) == pytest.approx([(15 + 35) / 1000, 25 / 1000])
