"""The best methods as real processes: which, for how long, and what a table says of them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import fields
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given, settings
from rich.console import Console
from typer.testing import CliRunner

from tests.comparison.clusters import OF_EACH_SYSTEM, clusters
from tests.long import usually
from workbench.cli import app
from workbench.clusters import Cluster, Link, Node, full_mesh, star
from workbench.comparison import METHODS, Problem, measured, text
from workbench.comparison.compare import Comparison, compared
from workbench.comparison.measured import Measurement, over
from workbench.comparison.methods import usable
from workbench.profiles import profile_model
from workbench.runtime import Program, Run, simulate
from workbench.runtime.measured import MeasuredRun, sessions
from workbench.utils.checks import UserError

if TYPE_CHECKING:
    from workbench.runtime.measured.sessions import Session

LENET = profile_model("lenet5")
SENT = "one node, samples sent once"


def mesh(nodes: int = 3, mbps: float = 100, **about: Any) -> Cluster:
    """Nodes that hold samples, each linked with all others."""
    nodes_ = [Node(f"n{at}", flops_per_s=5e8, samples=64, **about) for at in range(nodes)]
    return full_mesh(nodes_, Link(mbps * 1e6, overhead_s=0.001))


def comparison(methods: Sequence[str], cluster: Cluster | None = None) -> Comparison:
    """A comparison of some methods."""
    problem = Problem(LENET, cluster or mesh(), 8)
    return compared(problem, [METHODS[method] for method in methods])


def trial(problem: Problem, method: str, at_most_s: float = 60.0) -> Measurement:
    return Measurement.of(problem, compared(problem, [METHODS[method]]).plans[method], at_most_s)


def reason(cluster: Cluster, method: str, at_most_s: float = 60.0) -> str:
    """Why a method is not measured."""
    with pytest.raises(UserError) as refused:
        trial(Problem(LENET, cluster, 8), method, at_most_s)
    return str(refused.value)


class TestTrial:
    """What is measured, decided by simulations."""

    @pytest.mark.parametrize(
        "names", usually([OF_EACH_SYSTEM], [OF_EACH_SYSTEM, [*METHODS]]), ids=len
    )
    @settings(max_examples=5, deadline=None)
    @given(cluster=clusters(2, 4, far=True))
    def test_links_that_carry_nothing_may_be_left_out(
        self, names: list[str], cluster: Cluster
    ) -> None:
        problem = Problem(LENET, cluster, 8)
        for name, plan in usable(problem, [METHODS[name] for name in names]).items():
            try:
                trial = Measurement.of(problem, plan, 1e9)
            except UserError:
                continue

            def pruned(cluster: Cluster, programs: Any, /, *, trace: bool = False) -> Run:
                return simulate(over(cluster, trial.used.links), programs, trace=trace)  # noqa: B023

            assert plan.run(pruned, trial.count).samples_per_s == trial.samples_per_s, name

    def test_a_mean_over_some_iterations_is_the_usual_one_where_all_are_alike(self) -> None:
        problem = Problem(LENET, star(mesh().nodes, [Node("s", flops_per_s=1e10)], Link(1e7)), 8)
        for name, plan in usable(problem, METHODS.values()).items():
            if plan.phases:
                trial = Measurement.of(problem, plan, 1e9)
                # GoSGD sends at random; PipeDream's steps repeat after several, not after each.
                off = {"gosgd": 0.02, "pipeline, pipedream": 1e-3}.get(name, 1e-6)
                rate = pytest.approx(plan.cost.samples_per_s, rel=off)
                assert trial.samples_per_s == rate, name
                taken_s = sum(
                    simulate(phase.cluster, phase.programs(count)).end_s
                    for phase in plan.phases
                    for count in (phase.first, phase.first + trial.count)
                )
                assert trial.used.seconds == pytest.approx(taken_s)

    def test_slow_iterations_are_fewer_and_too_slow_ones_none(self) -> None:
        problem = Problem(LENET, mesh(), 8)
        whole = trial(problem, "all-reduce")
        assert whole.count * whole.plan.cost.iteration_s >= measured.LASTING_S
        shorter = trial(problem, "all-reduce", whole.used.seconds / 2)
        assert shorter.count == measured.FEWEST
        said = reason(mesh(), "all-reduce", 1e-3)
        assert "2 iterations, with those before them, take" in said
        assert "a method may take 0.001 s (at_most_s)" in said

    def test_methods_without_programs_and_large_clusters_are_refused(self) -> None:
        assert "train it with RunOptions(measured=True)" in reason(mesh(), "dlion")
        assert "need three nodes" in reason(mesh(2), "hiertrain")
        assert "up to 32 nodes are measured" in reason(mesh(33), "all-reduce")


class TestTable:
    """What `Comparison.measure` returns, and the command prints."""

    def test_without_ray_is_one_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sessions, "_current", None)
        monkeypatch.setitem(sys.modules, "ray", None)
        with pytest.raises(UserError, match=r"Ray, which is not installed: pip install"):
            comparison(["gossip"]).measure()

    @pytest.mark.parametrize("at_most_s", [0, -1.0, float("inf"), float("nan"), "long"])
    def test_seconds_out_of_range_are_refused(self, at_most_s: Any) -> None:
        with pytest.raises((UserError, TypeError), match="at_most_s"):
            comparison(["gossip"]).measure(at_most_s=at_most_s)

    def test_unknown_method_is_refused(self) -> None:
        with pytest.raises(UserError, match="Did you mean 'gossip'"):
            comparison(["gossip"]).measure(["gosip"])

    def test_ctrl_c_while_ray_starts_leaves_rows_without_rates(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def start(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(sessions, "current_or_new", start)
        frame = comparison(["gossip", "fedavg"]).measure()
        assert frame["method"].to_list() == ["gossip", "fedavg"]
        assert frame["reason"].to_list() == ["interrupted", "interrupted"]

    def test_after_ctrl_c_what_was_measured_stays(self, monkeypatch: pytest.MonkeyPatch) -> None:
        names = ("all-reduce", "gossip", "fedavg")

        def run(self: object, cluster: Cluster, programs: list[Program], *, trace: bool) -> Run:
            if len(ran) == 2:
                raise KeyboardInterrupt
            ran.append(simulate(cluster, programs, trace=trace))
            return ran[-1]

        ran = list[Run]()
        monkeypatch.setattr(measured.Measured, "__call__", run)
        monkeypatch.setattr(sessions, "current_or_new", lambda *_: nullcontext())
        monkeypatch.setattr(measured.Measured, "late", lambda self: {})
        frame = comparison(names).measure(names)
        assert frame["method"].to_list() == [*names]
        assert frame["measured_samples_per_s"].is_not_null().to_list() == [True, False, False]
        assert frame["measured_samples_per_s"][0] == frame["simulated_samples_per_s"][0]
        assert frame["reason"].to_list() == [None, "interrupted", "interrupted"]

    def test_command_prints_what_real_processes_took(
        self, ray_session: Session, tmp_path: Path
    ) -> None:
        file = tmp_path / "two.toml"
        file.write_text(
            '[[nodes]]\nname = "pi"\ncount = 2\ngflops = 0.5\nsamples = 64\n'
            '[[links]]\nbetween = ["pi", "pi"]\nmbps = 50\n',
            encoding="utf-8",
        )
        methods = ("--method", SENT, "--method", "all-reduce", "--method", "ako")
        typed = ["compare", "lenet5", "--cluster", str(file), "--measure", *methods]
        result = CliRunner(env={"COLUMNS": "100"}).invoke(app, typed)
        assert result.exit_code == 0, result.output
        assert "measuring 2 methods as real processes: about" in result.stderr
        assert "Measured on this machine" in result.stdout
        assert "no programs without learning" in result.stdout

    def test_real_processes_have_rates_beside_simulated_ones(self, ray_session: Session) -> None:
        found = comparison([SENT, "all-reduce"], mesh(2))
        rates = {row["method"]: row["samples_per_s"] for row in found.frame.iter_rows(named=True)}
        for row in found.measure().iter_rows(named=True):
            assert row["measured_samples_per_s"] > 0
            assert row["simulated_samples_per_s"] == pytest.approx(rates[row["method"]])
            assert 0 <= row["late"] <= row["deadlines"]
            assert row["iterations"] >= measured.FEWEST

    def test_real_processes_send_what_is_simulated_and_are_never_early(
        self, ray_session: Session
    ) -> None:
        planned = trial(Problem(LENET, mesh(2), 8), "all-reduce")
        plan, carrier = planned.plan, measured.Measured(planned.used.links)
        cost = plan.run(carrier, 2)
        simulated = plan.run(simulate, 2)
        assert (cost.link_bytes, cost.messages) == (simulated.link_bytes, simulated.messages)
        (phase,) = plan.phases
        for run, count in zip(carrier.runs, (phase.first, phase.first + 2), strict=True):
            assert run.end_s >= simulate(phase.cluster, phase.programs(count)).end_s

    @pytest.mark.parametrize(("steal", "note"), [(0.0, None), (0.5, measured.DISTURBED)])
    def test_rate_of_a_disturbed_run_has_a_note(
        self, monkeypatch: pytest.MonkeyPatch, steal: float, note: str | None
    ) -> None:
        found = {"kind": ["transfer", "work"], "count": [10, 10], "late": [0, 9]}
        calm = pl.DataFrame(found | {"total_s": [0.0, 9.0]})

        def run(self: measured.Measured, cluster: Cluster, programs: Any, *, trace: bool) -> Run:
            ran = simulate(cluster, programs, trace=trace)
            known = {each.name: getattr(ran, each.name) for each in fields(Run)}
            self.runs.append(
                MeasuredRun(**known, late=calm, steal=steal, clock_error_s=0, refused=0)
            )
            return ran

        monkeypatch.setattr(measured.Measured, "__call__", run)
        planned = trial(Problem(LENET, mesh(), 8), "all-reduce")
        row = planned.measure()
        assert row["measured_samples_per_s"] == planned.samples_per_s
        assert (row["reason"], row["late"], row["deadlines"]) == (note, 0, 20)

    def test_table_fits_a_hundred_columns(self) -> None:
        row = {
            "method": "parameter server, batches by speed",
            "simulated_samples_per_s": 123456.0,
        } | {
            "measured_samples_per_s": 98765.0,
            "late": 12345,
            "deadlines": 123456,
            "steal": 0.123,
            "reason": None,
        }
        missing: dict[str, Any] = dict.fromkeys(row)
        missing |= {"method": "fedavg", "reason": "2 iterations take " + 20 * "long "}
        console = Console(file=StringIO(), width=100)
        for table in text.measured(pl.DataFrame([row, missing])):
            console.print(table)
        shown = console.file.getvalue()  # type: ignore[attr-defined]
        assert max(map(len, shown.splitlines())) <= 100
        assert "+25.0 %" in shown
        assert "…" not in shown
