"""Activations of frozen first layers, kept from the first epoch: rates by hand, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import polars as pl
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.long import usually
from workbench.clusters import Cluster, Link, Node, full_mesh
from workbench.comparison import METHODS, Problem, UnusableError, compare
from workbench.comparison.methods import rounds
from workbench.profiles import profile_model
from workbench.utils.checks import UserError

EPOCHS = (1, 2, 10)
FEATURES = 128
SAMPLES = 300
EACH = "one node, samples sent each epoch"
ONCE = "one node, samples sent once"
FEW = ["one node", ONCE, EACH, "all-reduce", "fedavg", "hiertrain", "pipeline, 1f1b", "baseline"]
OVERLAPPING = ["parameter server, dynacomm", "hop"]


def mlp(between: nn.Module | None = None) -> nn.Sequential:
    """Two frozen layers of `FEATURES`, what comes behind them, and a trained head."""
    lower = nn.Sequential(nn.Linear(64, FEATURES), nn.ReLU(), nn.Linear(FEATURES, FEATURES))
    lower.append(between or nn.ReLU()).requires_grad_(False)
    return nn.Sequential(lower, nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, 4)))


class Adapter(nn.Module):
    """A trained adapter with a residual connection."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, 4), nn.Dropout(0.1), nn.Linear(4, width))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x)  # type: ignore[no-any-return]


def adapted(width: int = 16) -> nn.Sequential:
    """A frozen block of a transformer and an adapter, then another block and adapter."""
    lower, upper = (
        nn.TransformerEncoderLayer(width, 2, 2 * width, 0.1, batch_first=True).requires_grad_(False)
        for _ in range(2)
    )
    return nn.Sequential(lower, nn.Sequential(Adapter(width), upper, Adapter(width)))


PROFILE = profile_model(mlp(), (64,))


def nodes(count: int, bps: float = 1e9, flops_per_s: float = 1e8) -> Cluster:
    each = [Node(f"n{at}", flops_per_s=flops_per_s, samples=SAMPLES) for at in range(count)]
    return full_mesh(each, Link(bps))


def problem_of(cluster: Cluster, epochs: int = 10, batch_size: int = 8) -> Problem:
    return Problem(PROFILE, cluster, batch_size, epochs=epochs, cache_frozen=True)


def frozen_s(problem: Problem, node: int = 0) -> float:
    """Seconds of a forward pass of both frozen layers on a batch, two FLOPs a weight."""
    flops = 2 * (64 * FEATURES + FEATURES * FEATURES) * problem.batch_size
    flops_per_s = problem.cluster.nodes[node].flops_per_s
    assert flops_per_s is not None
    return flops / flops_per_s


@pytest.mark.parametrize("epochs", EPOCHS)
def test_one_node_computes_frozen_layers_in_one_epoch_of_all(epochs: int) -> None:
    problem = problem_of(nodes(1), epochs)
    first_s = problem.without_cache.batch_s(0)
    later_s = first_s - frozen_s(problem)
    mean_s = (first_s + (epochs - 1) * later_s) / epochs
    cost = METHODS["one node"].plan(problem).cost
    assert cost.samples_per_s == pytest.approx(8 / mean_s, rel=1e-9)
    assert problem.sample_s[0] * 8 == pytest.approx(
        problem.without_cache.sample_s[0] * 8 - (1 - 1 / epochs) * frozen_s(problem), rel=1e-9
    )


@pytest.mark.parametrize("epochs", EPOCHS)
@pytest.mark.parametrize("bps", [1e9, 1e4])
def test_all_reduce_saves_computing_alone(epochs: int, bps: float) -> None:
    problem = problem_of(nodes(2, bps), epochs)
    # Each of two nodes sends half of its gradient, then half of the sum.
    sent_s = 2 * 8 * (problem.model_bytes / 2) / bps
    saved_s = (1 - 1 / epochs) * frozen_s(problem)
    cost = METHODS["all-reduce"].plan(problem).cost
    by_hand_s = problem.without_cache.batch_s(0) - saved_s + sent_s
    assert cost.iteration_s == pytest.approx(by_hand_s, rel=1e-6)
    gain = METHODS["all-reduce"].plan(problem.without_cache).cost.iteration_s / cost.iteration_s
    if bps == 1e4:
        assert gain < 1.001
    else:
        assert (gain > 1.4) == (epochs > 1)


@pytest.mark.parametrize("name", usually(FEW, METHODS))
def test_methods_that_send_samples_in_every_epoch_gain_nothing_and_others_keep_activations(
    name: str,
) -> None:
    cluster = nodes(3)
    fast = replace(cluster.nodes[0], flops_per_s=2e8)
    cluster = replace(cluster, nodes=(fast, *cluster.nodes[1:]))
    problem, method = problem_of(cluster), METHODS[name]
    try:
        plain, cached = (method.plan(each) for each in (problem.without_cache, problem))
    except UnusableError:
        return
    assumed = "; ".join(cached.assumes)
    rates = plain.cost.samples_per_s, cached.cost.samples_per_s
    if method.moves_samples and name != ONCE:
        assert rates[0] == rates[1]
        assert "frozen layers are computed in every epoch" in assumed
    else:
        assert rates[1] > rates[0]
        held = SAMPLES * (3 if name == ONCE else 1)
        assert f"kept ({held * FEATURES * 4 / 1e3:.3g} kB" in assumed.replace(",", "")
        assert not any("frozen" in phrase or "kept" in phrase for phrase in plain.assumes)


def of_later_epochs(problem: Problem) -> Problem:
    """The plain problem of a model whose frozen layers take no time in a forward pass."""
    table, frozen = problem.profile.table, pl.int_range(pl.len()) < problem.frozen_layers
    free = pl.when(frozen).then(0).otherwise("forward_flops").cast(table.schema["forward_flops"])
    profile = replace(problem.profile, table=table.with_columns(forward_flops=free))
    return replace(problem.without_cache, profile=profile)


@pytest.mark.parametrize("name", usually([*FEW, "zero-3", *OVERLAPPING], METHODS))
@pytest.mark.parametrize("mbps", [0.3, 40])
def test_a_training_takes_its_first_epoch_and_then_later_ones(name: str, mbps: float) -> None:
    """Links are slower than computing in all epochs, or in later ones alone."""
    problem, method = problem_of(nodes(3, mbps * 1e6), epochs=4), METHODS[name]
    try:
        first, later = (
            method.plan(each).cost for each in (problem.without_cache, of_later_epochs(problem))
        )
    except UnusableError:
        return
    if method.moves_samples:
        later = first
        if name == ONCE:
            later = METHODS["one node"].plan(of_later_epochs(problem)).cost
            first = METHODS[EACH].plan(problem.without_cache).cost
    sample_s = (1 / first.samples_per_s + 3 / later.samples_per_s) / 4
    found = method.plan(problem).cost.samples_per_s
    if method.system in {"ZeRO", "all-reduce"}:  # the same buckets in all epochs
        assert 0.95 / sample_s <= found <= 1 / sample_s * (1 + 1e-9)
    else:
        assert found == pytest.approx(1 / sample_s, rel=1e-9)


def test_an_epoch_of_gossip_saves_the_forward_pass_of_all_batches() -> None:
    problem = problem_of(nodes(2))
    plain_s, cached_s = (
        rounds.epoch_s(each, 0, SAMPLES) for each in (problem.without_cache, problem)
    )
    saved_s = 0.9 * SAMPLES / 8 * frozen_s(problem)
    assert plain_s - cached_s == pytest.approx(saved_s, rel=1e-9)


def test_measured_times_save_what_was_measured_of_frozen_layers() -> None:
    plain = problem_of(nodes(1)).without_cache
    times = {"n0": replace(plain.layer_times(0), device="cpu")}
    problem = replace(plain, times=times, cache_frozen=True)
    saved_s = 0.9 * float(times["n0"].table["forward_s"][:2].to_numpy().sum())
    assert plain.batch_s(0) - problem.batch_s(0) == pytest.approx(saved_s, rel=1e-9)


@pytest.mark.parametrize(
    ("module", "shape"),
    [(mlp, (64,)), (adapted, (5, 16))],
    ids=["mlp", "transformer"],
)
def test_kept_activations_give_the_gradients_of_the_whole_model(
    module: Callable[[], nn.Sequential], shape: tuple[int, ...]
) -> None:
    torch.manual_seed(0)
    whole = module().train()
    lower, upper = whole
    lower.eval()
    samples = torch.randn(8, *shape)
    with torch.no_grad():
        kept = lower(samples)
    profile = profile_model(whole, shape)
    problem = Problem(profile, nodes(1), cache_frozen=True)
    assert profile.table["output_bytes"][problem.frozen_layers - 1] == kept[0].nbytes
    trained = [each for each in whole.parameters() if each.requires_grad]
    of_whole, of_kept = (
        torch.autograd.grad(outputs.square().sum(), trained)
        for outputs in (seeded_run(whole, samples), seeded_run(upper, kept))
    )
    assert trained
    assert all(map(torch.equal, of_whole, of_kept))


def seeded_run(module: nn.Module, x: Tensor) -> Tensor:
    """Outputs with the same random numbers for the dropout of trained layers."""
    torch.manual_seed(1)
    y: Tensor = module(x)
    return y


class Dropping(nn.Module):
    """Dropout by a function, whatever the module's mode."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout(x, 0.5)


@pytest.mark.parametrize(
    ("module", "shape", "why"),
    [
        (mlp(nn.Dropout(0.1)), (64,), "draws random numbers"),
        (mlp(nn.BatchNorm1d(FEATURES)), (64,), "normalises by its batch"),
        (adapted(), (5, 16), "draws random numbers"),
    ],
    ids=["dropout", "batch normalisation", "transformer"],
)
def test_frozen_layers_that_change_are_refused_until_they_are_in_eval_mode(
    module: nn.Sequential, shape: tuple[int, ...], why: str
) -> None:
    with pytest.raises(UserError, match=f"{why}.*put the frozen layers in eval mode"):
        compare(module, nodes(1), input_shape=shape, cache_frozen=True)
    lower, upper = module
    lower.eval()
    answer = compare(module, nodes(1), input_shape=shape, cache_frozen=True)
    plain = METHODS["one node"].plan(answer.problem.without_cache)
    rate = answer.frame.filter(method="one node")["samples_per_s"].item()
    assert rate > plain.cost.samples_per_s
    assert all(part.training for part in upper.modules())


def test_dropout_outside_a_mode_is_refused_and_dropout_of_trained_layers_is_not() -> None:
    with pytest.raises(UserError, match="draws random numbers"):
        compare(mlp(Dropping()).eval(), nodes(1), input_shape=(64,), cache_frozen=True)
    above = mlp()
    above[1].append(nn.Dropout(0.5))  # type: ignore[operator]
    compare(above, nodes(1), input_shape=(64,), cache_frozen=True)


def test_the_answer_names_methods_that_keep_no_activations() -> None:
    names = "one node, samples sent each epoch; HierTrain; pipeline"
    said = f"These methods compute the frozen layers in every epoch: {names}."
    answers = [compare(PROFILE, nodes(2), cache_frozen=kept) for kept in (True, False)]
    assert [said in str(answer) for answer in answers] == [True, False]


@pytest.mark.parametrize("model", ["lenet5", nn.Linear(64, 4)])
def test_a_model_without_a_frozen_front_is_refused(model: str | nn.Module) -> None:
    shape = None if isinstance(model, str) else (64,)
    with pytest.raises(UserError, match=r"in front of the first trained one, and .* has none"):
        compare(model, nodes(1), input_shape=shape, cache_frozen=True)
