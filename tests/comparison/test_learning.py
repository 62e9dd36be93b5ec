"""Methods that learn: those equal to SGD against the systems' own trainings, the others by hand."""

from __future__ import annotations

import math
import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl
import pytest
from torch import nn

from tests.oracles import comparison as oracle
from workbench import datasets, dynacomm, hiertrain, training
from workbench.clusters import Cluster, Link, Node, full_mesh, load_cluster, star
from workbench.comparison import METHODS, Problem
from workbench.comparison.learning import charts, stress, systems, tables, train, train_methods
from workbench.comparison.learning.ranking import TrainedMethods, default_target, named, summary
from workbench.comparison.learning.sgd import Batches, Clock, learn, steps
from workbench.comparison.learning.stress import STRESSES
from workbench.comparison.learning.task import Task
from workbench.comparison.learning.trial import Trial
from workbench.comparison.memory import memory_of
from workbench.comparison.methods import fedavg
from workbench.comparison.methods.tiers import team_of
from workbench.profiles import profile_model
from workbench.training import RunOptions, Sgd
from workbench.training.objective import CLASSES, squared_error
from workbench.utils.checks import UserError
from workbench.utils.files import DATA
from workbench.zoo.gpt import GPT

if TYPE_CHECKING:
    from workbench.runtime.measured.sessions import Session

PROFILE = profile_model("lenet5")
DIGITS = datasets.load("digits").fitted((1, 28, 28)).limit(train=128, test=32)
LINK = Link(2e7, overhead_s=0.002)


def problem_of(cluster: Cluster, batch_size: int = 16) -> Problem:
    return Problem(PROFILE, cluster, batch_size)


def even(count: int = 3) -> Cluster:
    return full_mesh([Node(f"n{at}", flops_per_s=1e9, samples=10) for at in range(count)], LINK)


def task(cluster: Cluster | None = None, batch_size: int = 16, **options: Any) -> Task:
    given = {"epochs": 2, "learning_rate": 0.1} | options
    return Task(problem_of(cluster or even(), batch_size), "lenet5", DIGITS, **given)


def test_task_keeps_the_memory_of_its_problem_in_another_process() -> None:
    problem = replace(problem_of(even()), memory=memory_of("lenet5", None, None))
    sent = pickle.loads(pickle.dumps(Task(problem, "lenet5", DIGITS)))
    assert sent.problem.needed_bytes(16) == problem.needed_bytes(16) is not None


def curve(one: Task, method: str, seed: int = 0) -> pl.DataFrame:
    """Evaluations of a method's own training."""
    return systems.train(Trial(one, METHODS[method], METHODS[method].plan(one.problem), seed))


def methods(*names: str, cluster: Cluster | None = None, **options: Any) -> TrainedMethods:
    given = {"epochs": 1, "seeds": 1, "processes": 1} | options
    return train_methods("lenet5", cluster or even(), DIGITS, 16, methods=names, **given)


def sgd_losses(batches: list[np.ndarray], rate: float) -> list[float]:
    with training.fixed_threads():
        flat = training.flatten(training.initialise("lenet5", 0), (1, 28, 28))
        return list(steps(flat, DIGITS, zip(batches, strict=True), Sgd(rate), 0))


class TestEqualToSgd:
    """Methods share one loop: the same batches give the same losses, at the times of each clock."""

    @pytest.mark.parametrize("planner", ["dynacomm", "sequential"])
    def test_parameter_server_learns_as_plain_sgd_at_the_times_of_its_clock(
        self, planner: str
    ) -> None:
        size: dict[str, Any] = {"workers": 2, "batch_size": 16, "epochs": 2}
        setup = dynacomm.Setup("lenet5", DIGITS, LINK, flops_per_s=1e9, sgd=Sgd(0.1), **size)
        programs = setup.programs(dynacomm.training.PlanOptions(planner, None))
        trained = training.run(programs)
        batches = [
            np.concatenate(both)
            for epoch in range(2)
            for both in zip(
                *(training.batches(DIGITS, 16, 0, epoch, worker=one, workers=2) for one in (0, 1)),
                strict=True,
            )
        ]
        assert sgd_losses(batches, 0.1) == pytest.approx(programs.losses, rel=1e-4)
        workers = [Node(f"worker{at}", flops_per_s=1e9, samples=1) for at in range(2)]
        times = {f"worker{at}": setup.times for at in range(2)}
        cluster = star(workers, [Node("server0", flops_per_s=1e6)], LINK)
        problem = Problem(PROFILE, cluster, 16, times)
        method = METHODS[f"parameter server, {planner}"]
        clock = Clock.of(problem, method.plan(problem))
        ends = [clock.start_s + count * clock.iteration_s for count in (4, 8)]
        assert ends == pytest.approx(trained.epochs["at_s"].to_list(), rel=1e-9)

    @pytest.mark.parametrize("planner", ["hiertrain", "all_cloud", "jointdnn"])
    def test_tiers_learn_as_plain_sgd_at_the_times_of_their_clock(self, planner: str) -> None:
        home = load_cluster(DATA / "clusters" / "home.toml")
        nodes = (replace(one, samples=100 if one.name == "board1" else 0) for one in home.nodes)
        problem = problem_of(replace(home, nodes=tuple(nodes)))
        plan = METHODS[planner].plan(problem)
        _, edge, cloud = plan.phases[0].nodes
        tier_problem = team_of(problem, edge, cloud).tier_problem
        setup = hiertrain.Setup(
            "lenet5", DIGITS, tier_problem, sharing="interfaces", epochs=2, sgd=Sgd(0.1)
        )
        programs = setup.programs(planner)
        trained = training.run(replace(programs, cluster=plan.phases[0].cluster))
        assert sgd_losses(setup.batches, 0.1) == pytest.approx(trained.losses, rel=1e-4)
        clock = Clock.of(problem, plan)
        ends = [clock.start_s + count * clock.iteration_s for count in (8, 16)]
        assert ends == pytest.approx(trained.epochs["at_s"].to_list(), rel=1e-6)

    def test_synchronous_peers_learn_as_plain_sgd_from_the_same_draws(self) -> None:
        one, method = task(), METHODS["baseline"]
        plan = method.plan(one.problem)
        peers = curve(one, "baseline", seed=3)
        alone = learn(one, Batches.of(method, plan, one.problem), 3)
        assert peers["loss"][0] == alone["loss"][0]
        assert peers["samples"][-1] == alone["samples"][-1]
        assert peers["loss"][-1] == pytest.approx(alone["loss"][-1], rel=1e-5)
        clock = Clock.of(one.problem, plan)
        last = alone["iteration"].to_list()[-1]
        # The last iteration's gradients are still on their way when all workers have computed.
        ends = [clock.start_s + count * clock.iteration_s for count in (last - 1, last)]
        assert ends[0] <= peers["at_s"][-1] <= ends[1] * (1 + 1e-9)

    def test_pooled_batches_hold_every_sample_once_an_epoch(self) -> None:
        drawn = Batches((0, 1, 2), (16,)).draw(task().shards(0), 0)
        assert sorted(np.concatenate([next(drawn) for _ in range(8)])) == list(range(128))

    def test_a_tier_of_devices_draws_from_the_samples_of_all(self) -> None:
        problem, method = task().problem, METHODS["hiertrain"]
        drawn = Batches.of(method, method.plan(problem), problem)
        assert drawn == Batches((0, 1, 2), (problem.batch_size,))

    def test_clock_of_samples_sent_once_is_slow_in_the_first_epoch(self) -> None:
        problem = replace(problem_of(even(), 5), epochs=4)
        plan = METHODS["one node, samples sent once"].plan(problem)
        at = pl.DataFrame({"iteration": [0, 3, 6, 24]})
        found = at.with_columns(**Clock.of(problem, plan).columns())
        first_s, mean_s = plan.costs[0].iteration_s, plan.cost.iteration_s
        own_s = problem.batch_s(0)
        assert mean_s == pytest.approx((first_s + 3 * own_s) / 4)
        wanted = [0.0, 3 * first_s, 6 * first_s, 24 * mean_s]
        assert found["at_s"].to_list() == pytest.approx(wanted, rel=1e-9)
        sent = 20 * problem.sample_bytes
        assert found["bytes"].to_list() == pytest.approx([0.0, sent / 2, sent, sent])

    def test_workers_draw_from_their_own_samples(self) -> None:
        shards = task().shards(0)
        drawn = next(Batches((0, 2), (16, 8)).draw(shards, 0))
        assert set(drawn[:16]) <= set(shards[0])
        assert set(drawn[16:]) <= set(shards[2])
        assert len(drawn) == 24


def federation(cluster: Cluster, server: int, round_s: list[float]) -> fedavg.Setup:
    """Two rounds of two clients with unequal shards."""
    shards = [np.arange(40), np.arange(40, 128)]
    how: dict[str, Any] = {"shards": shards, "batch_size": 16, "round_s": round_s}
    how |= {"cluster": cluster, "server": server, "sgd": Sgd(0.1)}
    return fedavg.Setup("lenet5", DIGITS, epochs=2, **how)


def federated_losses(shards: Sequence[np.ndarray], seed: int) -> list[float]:
    return oracle.federated_losses(DIGITS, shards, rounds=2, batch=16, rate=0.1, seed=seed)


class TestFederated:
    def test_equals_its_oracle_in_the_seconds_of_its_table(self) -> None:
        nodes = [Node("a", flops_per_s=1e9, samples=30), Node("b", flops_per_s=2e9, samples=10)]
        one = task(full_mesh([*nodes, Node("s", flops_per_s=1e6)], LINK))
        found = curve(one, "fedavg", seed=1)
        losses = federated_losses(one.shards(1), seed=1)
        assert found["loss"].to_list()[1:] == pytest.approx(losses, rel=1e-5)
        round_s = METHODS["fedavg"].plan(one.problem).cost.iteration_s
        assert found["at_s"][2] - found["at_s"][1] == pytest.approx(round_s)

    def test_a_server_that_is_a_client_as_well_learns_the_same_and_sends_itself_nothing(
        self,
    ) -> None:
        setup = federation(full_mesh(2, LINK), 1, [0.1, 0.5])
        trained = training.train(setup, None)
        size = 246824
        assert trained.run.bytes == 2 * 2 * size
        there_s = 0.002 + 8 * size / 2e7
        assert trained.run.end_s == pytest.approx(2 * max(0.5, 2 * there_s + 0.1))
        losses = federated_losses(setup.shards, seed=0)
        assert trained.epochs["test_loss"].to_list() == pytest.approx(losses, rel=1e-5)

    @pytest.mark.parametrize("server", [1, 2])
    def test_real_processes_learn_the_same_bit_for_bit(
        self, ray_session: Session, server: int
    ) -> None:
        setup = federation(full_mesh(3, LINK), server, [0.02, 0.05])
        simulated, measured = (
            training.train(setup, None, RunOptions(measured=real)) for real in (False, True)
        )
        assert measured.weights.equal(simulated.weights)
        assert measured.epochs.drop("at_s").equals(simulated.epochs.drop("at_s"))
        assert (measured.epochs["at_s"] >= simulated.epochs["at_s"]).all()


@pytest.mark.parametrize("name", ["gossip", "gosgd", "edgegossip", "fedavg", "diloco", "dlion"])
def test_curves_begin_with_the_same_model_and_never_go_back(name: str) -> None:
    one = task()
    found = curve(one, name)
    first = learn(one, Batches((0,), (16,)), 0)
    assert found.row(0)[0:3] == (0.0, 0.0, 0.0)
    assert found.select("loss", "metric").row(0) == first.select("loss", "metric").row(0)
    for column in ("at_s", "bytes", "samples"):
        assert found[column].is_sorted()
    sends_early = name not in ("gosgd", "diloco")
    assert (found["bytes"][-1] > 0) == sends_early
    most = 2 * len(DIGITS.y_train)
    assert 0.5 * most <= found["samples"][-1] <= 1.5 * most


def test_epochs_of_gossip_take_as_long_as_in_the_table() -> None:
    one = task(batch_size=1, epochs=4)
    epoch_s = METHODS["gossip"].plan(one.problem).cost.iteration_s
    assert curve(one, "gossip")["at_s"].max() / 4 == pytest.approx(epoch_s, rel=0.03)  # type: ignore[operator]


class TestAllMethods:
    @staticmethod
    def run(processes: int) -> TrainedMethods:
        names = ["one node", "all-reduce", "parameter server, dynacomm", "gossip", "hiertrain"]
        return methods(*names, cluster=even(2), epochs=2, seeds=2, processes=processes)

    @pytest.fixture(scope="class")
    @classmethod
    def trained(cls) -> TrainedMethods:
        return cls.run(1)

    def test_the_same_bits_in_other_processes(self, trained: TrainedMethods) -> None:
        other = self.run(2)
        assert other.evaluations.equals(trained.evaluations)
        assert other.summary.equals(trained.summary)

    def test_methods_with_the_same_batches_learn_alike(self, trained: TrainedMethods) -> None:
        by_method = trained.evaluations.partition_by("method", as_dict=True)
        losses = {name: frame["loss"].to_list() for (name,), frame in by_method.items()}
        assert len(losses["all-reduce"]) > 4
        assert losses["all-reduce"] != losses["one node"]
        alike = [by_method[name,] for name in ("all-reduce", "parameter server, dynacomm")]
        same = alike[0].join(alike[1], on=["seed", "samples"], how="inner")
        assert len(same) > 4
        assert (same["loss"] == same["loss_right"]).all()

    def test_a_method_that_cannot_be_used_is_a_row_with_its_reason(
        self, trained: TrainedMethods
    ) -> None:
        (row,) = trained.summary.filter(method="hiertrain").to_dicts()
        assert "three nodes" in row["reason"]
        assert trained.summary["method"].to_list()[-1] == "hiertrain"
        assert row["to_loss_s"] is None

    def test_all_run_for_what_the_slowest_takes_for_its_epochs(
        self, trained: TrainedMethods
    ) -> None:
        rows = trained.summary.filter(pl.col("reason").is_null())
        assert (trained.evaluations["at_s"] <= trained.seconds * (1 + 1e-9)).all()
        kept = trained.evaluations.join(rows.filter(~pl.col("cut_short")), on="method", how="semi")
        assert kept["method"].n_unique() > 1
        ends = kept.group_by("method", "seed").agg(pl.col("at_s").max(), pl.col("samples").max())
        slowest = ends.filter(samples=ends["samples"].min())
        assert slowest["samples"].to_list() == [2 * 128] * len(slowest)
        assert slowest["at_s"].max() == pytest.approx(trained.seconds)
        assert (ends["at_s"] > 0.7 * trained.seconds).all()  # evaluations are half an epoch apart

    def test_no_method_learns_for_more_than_five_times_the_epochs(self) -> None:
        found = methods("one node", "gossip", "all-reduce", seconds=1e6)
        assert found.seconds == 1e6
        assert found.summary["cut_short"].all()
        most = found.evaluations.group_by("method").agg(pl.col("samples").max())
        assert dict(most.iter_rows())["one node"] == 5 * 128
        assert most["samples"].is_between(5 * 128, 5 * 128 + 3 * 16).all()

    def test_seconds_that_are_given_end_all_methods(self) -> None:
        whole = methods("gossip", "all-reduce")
        found = methods("gossip", "all-reduce", seconds=whole.seconds / 2)
        assert not found.summary["cut_short"].any()
        earlier = whole.evaluations.filter(pl.col("at_s") <= whole.seconds / 2)
        keys = ["method", "at_s", "loss"]
        assert len(earlier) > 2
        assert earlier.select(keys).join(found.evaluations, on=keys).height == len(earlier)

    def test_samples_that_may_not_leave_stay(self) -> None:
        kept = replace(even(), raw_samples_may_leave=False)
        found = methods("hiertrain", "all-reduce", cluster=kept)
        assert "may not leave" in found.summary.filter(method="hiertrain")["reason"][0]

    def test_a_training_that_diverges_is_a_row_with_its_reason(self) -> None:
        found = methods("all-reduce", "gossip", cluster=even(2), learning_rates=(0.1, 1e30))
        assert found.summary["learning_rate"].to_list() == [0.1, 0.1]
        found = methods("all-reduce", "gossip", cluster=even(2), learning_rates=(1e30,))
        assert all("loss is" in reason for reason in found.summary["reason"])


def test_interrupted_training_keeps_trained_methods(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual = train.learn

    def interrupted(method: str, **given: Any) -> object:
        if method == "gossip":
            raise KeyboardInterrupt
        return usual(method=method, **given)

    monkeypatch.setattr(train, "learn", interrupted)
    found = methods("gossip", "all-reduce")
    assert found.interrupted
    assert found.evaluations["method"].unique().to_list() == ["all-reduce"]
    reasons = dict(found.summary.select("method", "reason").iter_rows())
    assert reasons == {"all-reduce": None, "gossip": "interrupted before it was trained"}


@pytest.mark.parametrize(
    "clock",
    [Clock(0.0, 0.25, 1.0), Clock(1.5, 0.25, 1.0), Clock(0.0, 0.25, 0.0, 2.5, 1.0, 8.0)],
    ids=["plain", "late", "first epoch"],
)
def test_iterations_that_have_ended_are_those_of_the_clock(clock: Clock) -> None:
    frame = pl.DataFrame({"iteration": range(1, 20)}).with_columns(**clock.columns())
    for at_s in (0.0, 1.0, 1.5, 1.7, 2.25, 3.0):
        assert clock.iterations(at_s) == frame.filter(pl.col("at_s") <= at_s).height
    assert [clock.seconds(one) for one in range(1, 20)] == frame["at_s"].to_list()


class TestRanking:
    """By hand: two seeds, all-reduce reaches 1.0 after 2 and 4 s, gossip once, after 1 s."""

    rows: ClassVar[list[dict[str, object]]] = [
        {"method": name, "system": name, "update": METHODS[name].update, "learning_rate": 0.1}
        | {"samples_share": 1.0, "reason": None}
        for name in ("gossip", "all-reduce")
    ]
    evaluations = pl.DataFrame(
        [
            ("all-reduce", 0.1, 0, 0.0, 0.0, 0.0, 2.0, 0.1),
            ("all-reduce", 0.1, 0, 2.0, 10.0, 5.0, 1.0, 0.5),
            ("all-reduce", 0.1, 0, 4.0, 20.0, 10.0, 0.0, 0.9),
            ("all-reduce", 0.1, 1, 0.0, 0.0, 0.0, 2.0, 0.1),
            ("all-reduce", 0.1, 1, 2.0, 10.0, 5.0, 1.5, 0.4),
            ("all-reduce", 0.1, 1, 4.0, 20.0, 10.0, 0.2, 0.7),
            ("gossip", 0.1, 0, 0.0, 0.0, 0.0, 2.0, 0.1),
            ("gossip", 0.1, 0, 1.0, 1.0, 5.0, 0.9, 0.6),
            ("gossip", 0.1, 1, 0.0, 0.0, 0.0, 2.0, 0.1),
            ("gossip", 0.1, 1, 1.0, 1.0, 5.0, 1.1, 0.6),
        ],
        schema=["method", "learning_rate", "seed", "at_s", "bytes", "samples", "loss", "metric"],
        orient="row",
    )

    def test_the_mean_counts_only_where_all_seeds_reached_the_loss(self) -> None:
        found = summary(self.evaluations, self.rows, 1.0)
        first, second = found.to_dicts()
        assert first["method"] == "all-reduce"
        assert (first["to_loss_s"], first["to_loss_s_min"], first["to_loss_s_max"]) == (3, 2, 4)
        assert (first["to_loss_bytes"], first["to_loss_samples"]) == (15, 7.5)
        assert (first["end_metric"], first["end_metric_min"]) == (pytest.approx(0.8), 0.7)
        assert (second["reached"], second["seeds"], second["to_loss_s"]) == (1, 2, None)
        assert second["end_loss"] == pytest.approx(1.0)

    def test_nothing_trained_has_no_metric_over_time(self) -> None:
        alone = Cluster([Node("a", flops_per_s=1e9)])
        assert methods("gossip", "dlion", cluster=alone).over_time.rows() == []

    def test_metric_over_time_is_the_newest_of_each_seed_by_then(self) -> None:
        rows = summary(self.evaluations, self.rows, 1.0)
        trained = TrainedMethods(
            named(self.evaluations, CLASSES), named(rows, CLASSES), 1.0, seconds=4
        )
        frame = trained.over_time
        assert frame.columns == ["method", "0.5 s", "1 s", "2 s", "4 s"]
        best = self.evaluations.filter(method="all-reduce", learning_rate=0.1)
        for at_s in (1, 2, 4):
            by_then = best.filter(pl.col("at_s") <= at_s).group_by("seed").last()
            (value,) = frame.filter(method="all-reduce")[f"{at_s} s"]
            assert value == (pytest.approx(by_then["metric"].mean()) if len(by_then) else None)

    def test_default_target_is_nine_tenths_of_what_the_best_sgd_improves(self) -> None:
        found = default_target(self.evaluations, self.rows)
        assert found == pytest.approx(2.0 - 0.9 * (2.0 - 0.1))


def test_trainings_that_only_get_worse_say_so() -> None:
    found = methods("one node", "all-reduce", learning_rates=[100])
    assert found.summary["to_loss_s"].drop_nulls().to_list() == [0, 0]
    assert str(found).startswith("The first weights have a test loss of")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"methods": ["gosip"]}, "'gosip'.* 'gossip'"),
        ({"methods": "gossip"}, "methods is 'gossip'"),
        ({"methods": {"gossip", "fedavg"}}, "where order counts"),
        ({"methods": []}, "there are no methods"),
        ({"dataset": "digits"}, "dataset is the name 'digits'"),
        ({"dataset": DIGITS.limit(train=2)}, "cannot share"),
        ({"learning_rates": [-1]}, "learning_rate is -1"),
        ({"until_loss": 0}, "until_loss is 0"),
        ({"seconds": 0}, "seconds is 0; give virtual seconds from 1e-12 to 1e"),
        *(({"seconds": one}, "give virtual seconds from") for one in (1.7e308, math.nan, 5e-324)),
        ({"seconds": math.inf}, "seconds is inf"),
    ],
)
def test_refusals_name_what_is_wrong(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        train_methods("lenet5", even(), **{"dataset": DIGITS} | wrong)


DRAWN = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
NUMBERS = datasets.Dataset("sums", DRAWN, DRAWN.sum(1), DRAWN[:8], DRAWN[:8].sum(1), ())
TEXTS = datasets.markov.load(tokens=8, length=6, train=40, test=8)
MEASURED: dict[str, tuple[Any, datasets.Dataset, Any, str | None, str]] = {
    "tokens": (
        lambda: GPT(8, 6, width=8, depth=1, heads=2, dropout=0.0),
        *(TEXTS, None, "perplexity", "perplexity"),
    ),
    "numbers": (lambda: nn.Linear(4, 1), NUMBERS, None, "rmse", "RMS error"),
    "one's own": (
        lambda: nn.Linear(4, 1),
        NUMBERS,
        training.Objective(squared_error, {"off": lambda made, y: (made[:, 0] - y).abs()}),
        *("off", "off"),
    ),
    "a loss alone": (lambda: nn.Linear(4, 1), NUMBERS, squared_error, None, "loss"),
}


@pytest.mark.parametrize("kind", MEASURED)
def test_evaluations_charts_and_tables_show_what_the_objective_measures(kind: str) -> None:
    made, data, objective, name, title = MEASURED[kind]
    model = training.initialise(made, 0)
    how: dict[str, Any] = {"epochs": 1, "methods": ["all-reduce", "gossip"], "processes": 1}
    how["objective"] = objective
    found = train_methods(model, even(), data, 4, seeds=1, learning_rates=[0.01], **how)
    measured = [] if name is None else [name]
    assert found.evaluations.columns[6:] == ["loss", *measured]
    loss_of = {"perplexity": math.exp, "rmse": math.sqrt}
    if name in loss_of:
        (own,) = found.evaluations.filter(method="all-reduce").tail(1).select("loss", name).rows()
        assert own[1] == pytest.approx(loss_of[str(name)](own[0]))
    drawn = charts.curves(found)
    assert drawn["title"].unique(maintain_order=True).to_list() == [
        f"test {one}" for one in ("loss", *[title] * len(measured))
    ]
    assert charts.draw_curves(drawn, ["title"])["vconcat"]
    ranked, over_time = tables(found, "title")
    assert str(over_time.title).startswith(f"Test {title if measured else 'loss'} after")
    headings = [column.header for column in ranked.columns]
    assert headings[-1] == (title if measured else "test loss\nat the end")

    stressed = stress(model, even(), data, 4, learning_rate=0.01, **how)
    assert set(stressed["stress"]) == {"none", *STRESSES} - {"labels uneven"}
    end = f"end_{name or 'loss'}"
    assert stressed.filter(method="all-reduce").filter(~pl.col("stops"))[end].n_unique() == 1
    gone = stressed.filter(method="gossip", stress="node dies").row(0, named=True)
    usual = stressed.filter(method="gossip", stress="none").row(0, named=True)
    assert gone[end] != usual[end]
    with pytest.raises(UserError, match="has no column end_top1; give the objective"):
        charts.draw_stress(stressed, ["title"])
    assert f"test {title} added" in str(charts.draw_stress(stressed, ["title"], found.objective))
