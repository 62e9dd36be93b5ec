"""The best ways as real processes: which, for how long, and what a table says of them."""

from __future__ import annotations

import sys
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

from tests.comparison.clusters import clusters, linked
from workbench.cli import app
from workbench.clusters import Cluster, Link, Node, full_mesh, star
from workbench.comparison import WAYS, Question, compare, measured, text
from workbench.comparison.measured import Measuring, Trial, over
from workbench.comparison.ways import usable
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
    made = [Node(f"n{at}", flops_per_s=5e8, samples=64, **about) for at in range(nodes)]
    return full_mesh(made, Link(mbps * 1e6, overhead_s=0.001))


def trial(question: Question, way: str, at_most_s: float = 60.0) -> Trial:
    return Trial.of(question, usable(question, [WAYS[way]]).get(way), at_most_s)


def reason(cluster: Cluster, way: str, at_most_s: float = 60.0) -> str:
    """Why a way is not measured."""
    with pytest.raises(UserError) as refused:
        trial(Question(LENET, cluster, 8), way, at_most_s)
    return str(refused.value)


class TestTrial:
    """What is measured, decided by simulations."""

    @settings(max_examples=5, deadline=None)
    @given(clusters(2, 4, far=True))
    def test_links_that_carry_nothing_may_be_left_out(self, cluster: Cluster) -> None:
        question = Question(LENET, cluster, 8)
        for name, option in usable(question, WAYS.values()).items():
            try:
                trial = Trial.of(question, option, 1e9)
            except UserError:
                continue

            def pruned(cluster: Cluster, programs: Any, /, *, trace: bool = False) -> Run:
                return simulate(over(cluster, trial.plan.used), programs, trace=trace)  # noqa: B023

            assert option.run(pruned, trial.count) == trial.simulated, name

    def test_a_mean_over_some_iterations_is_the_usual_one_where_all_are_alike(self) -> None:
        question = Question(LENET, star(mesh().nodes, [Node("s", flops_per_s=1e10)], Link(1e7)), 8)
        for name, option in usable(question, WAYS.values()).items():
            if option.dry is not None:
                trial = Trial.of(question, option, 1e9)
                assert trial.simulated.samples_per_s == pytest.approx(option.use.samples_per_s), (
                    name
                )
                taken_s = sum(
                    simulate(option.dry.cluster, option.dry.programs(count)).end_s
                    for count in (option.dry.first, option.dry.first + trial.count)
                )
                if option.again is None:
                    assert trial.plan.seconds == taken_s

    def test_slow_iterations_are_fewer_and_too_slow_ones_none(self) -> None:
        question = Question(LENET, mesh(), 8)
        whole = trial(question, "all-reduce")
        assert whole.count * whole.option.use.iteration_s >= measured.LASTING_S
        shorter = trial(question, "all-reduce", whole.plan.seconds / 2)
        assert shorter.count == measured.FEWEST
        said = reason(mesh(), "all-reduce", 1e-3)
        assert "2 iterations, with those before them, take" in said
        assert "a way may take 0.001 s (measure_at_most_s)" in said

    def test_every_device_has_its_turn(self) -> None:
        assert trial(Question(LENET, mesh(6, mbps=1), 256), "hiertrain", 1e9).count >= 6

    def test_ways_without_programs_and_large_clusters_are_refused(self) -> None:
        assert "train it with RunOptions(measured=True)" in reason(mesh(), "dlion")
        assert "it cannot be used here" in reason(mesh(2), "hiertrain")
        assert "up to 32 nodes are measured" in reason(mesh(33), "all-reduce")

    def test_a_link_inside_that_sets_the_pace_is_refused_and_another_named(self) -> None:
        nodes = [Node(f"n{at}", flops_per_s=1e9, samples=64) for at in range(4)]
        nodes += [Node("left", flops_per_s=1e6), Node("right", flops_per_s=1e6)]

        def through(mbps: float) -> Cluster:
            wide, narrow = Link(1e8), Link(mbps * 1e6)
            links = {(f"n{at}", ("left", "right")[at % 2]): wide for at in range(4)}
            return linked(nodes, links | {("left", "right"): narrow})

        assert "the link left to right, inside the network, sets the pace" in reason(
            through(1), "all-reduce"
        )
        note = trial(Question(LENET, through(100), 8), "gossip").note
        assert note == "as if alone on the link left to right and right to left"


class TestTable:
    """What `compare` adds."""

    def test_without_ray_is_one_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sessions, "_current", None)
        monkeypatch.setitem(sys.modules, "ray", None)
        with pytest.raises(UserError, match=r"Ray, which is not installed: pip install"):
            compare("lenet5", mesh(), measure=["gossip"])

    @pytest.mark.parametrize("measure", ["gossip", [], 1, None])
    def test_what_to_measure_is_names(self, measure: Any) -> None:
        with pytest.raises(UserError, match=r"measure is .*; give True, False, or a list of names"):
            compare("lenet5", mesh(), measure=measure)

    def test_ctrl_c_while_ray_starts_leaves_the_table(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def start(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(sessions, "current_or_new", start)
        frame = compare("lenet5", mesh(), 8, measure=["gossip"])
        assert frame.filter(way="gossip")["measured_note"].to_list() == ["interrupted"]
        assert frame["samples_per_s"].is_not_null().any()

    def test_best_are_of_different_systems_and_one_that_differs_from_sgd(self) -> None:
        question = Question(LENET, mesh(), 8)
        frame = compare("lenet5", mesh(), 8)
        chosen = measured.best(frame, usable(question, WAYS.values()))
        rows = frame.filter(pl.col("way").is_in(chosen))
        assert chosen == rows["way"].to_list()
        assert rows["system"].n_unique() == len(chosen) == 4
        assert (rows["update"] == "equal to SGD").to_list() == [True, True, True, False]

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
        question = Question(LENET, mesh(), 8)
        frame = measured.measured(
            question,
            compare("lenet5", mesh(), 8),
            usable(question, WAYS.values()),
            Measuring(names),
        )
        assert frame["way"].to_list() == [*names]
        assert frame["measured_samples_per_s"].is_not_null().to_list() == [True, False, False]
        assert frame["measured_samples_per_s"][0] == frame["simulated_samples_per_s"][0]
        assert frame["measured_note"].to_list() == ["", "interrupted", "interrupted"]

    def test_command_prints_and_writes_what_real_processes_took(
        self, ray_session: Session, tmp_path: Path
    ) -> None:
        file, csv = tmp_path / "two.toml", tmp_path / "all.csv"
        file.write_text(
            '[[nodes]]\nname = "pi"\ncount = 2\ngflops = 0.5\nsamples = 64\n'
            '[[links]]\nbetween = ["pi", "pi"]\nmbps = 50\n',
            encoding="utf-8",
        )
        ways = ("--way", SENT, "--way", "all-reduce", "--way", "ako")
        asked = ["compare", "lenet5", "--cluster", str(file), "--measure", *ways, "--csv", str(csv)]
        result = CliRunner(env={"COLUMNS": "100"}).invoke(app, asked)
        assert result.exit_code == 0, result.output
        assert "measuring 2 ways as real processes: about" in result.stderr
        assert "Measured on this machine" in result.stdout
        frame = pl.read_csv(csv).filter(pl.col("way").is_in(ways))
        rows = {row["way"]: row for row in frame.iter_rows(named=True)}
        assert "no programs without learning" in rows["ako"]["measured_note"]
        for way in (SENT, "all-reduce"):
            assert rows[way]["measured_samples_per_s"] > 0
            assert rows[way]["simulated_samples_per_s"] == pytest.approx(rows[way]["samples_per_s"])
            assert 0 <= rows[way]["late"] <= rows[way]["deadlines"]
            assert rows[way]["measured_iterations"] >= measured.FEWEST

    def test_real_processes_send_what_is_simulated_and_are_never_early(
        self, ray_session: Session
    ) -> None:
        planned = trial(Question(LENET, mesh(2), 8), "all-reduce")
        option, carrier = planned.option, measured.Measured(planned.plan.used)
        use = option.run(carrier, 2)
        simulated = option.run(simulate, 2)
        assert (use.link_bytes, use.messages) == (simulated.link_bytes, simulated.messages)
        assert option.dry is not None
        for run, count in zip(carrier.runs, (option.dry.first, option.dry.first + 2), strict=True):
            assert run.end_s >= simulate(option.dry.cluster, option.dry.programs(count)).end_s

    @pytest.mark.parametrize(("steal", "note"), [(0.0, ""), (0.5, measured.DISTURBED)])
    def test_rate_of_a_disturbed_run_has_a_note(
        self, monkeypatch: pytest.MonkeyPatch, steal: float, note: str
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
        planned = trial(Question(LENET, mesh(), 8), "all-reduce")
        row = planned.measure()
        assert row["measured_samples_per_s"] == planned.simulated.samples_per_s
        assert (row["measured_note"], row["late"], row["deadlines"]) == (note, 0, 20)

    def test_table_fits_a_hundred_columns(self) -> None:
        rate = {"samples_per_s": 123456.0, "simulated_samples_per_s": 123456.0}
        row = {"way": "parameter server, batches by speed", **rate} | {
            "measured_samples_per_s": 98765.0,
            "late": 12345,
            "deadlines": 123456,
            "steal": 0.123,
            "measured_note": "",
        }
        missing: dict[str, Any] = dict.fromkeys(row)
        missing |= {"way": "fedavg", "measured_note": "2 iterations take " + 20 * "long "}
        console = Console(file=StringIO(), width=100)
        for table in text.measured(pl.DataFrame([row, missing])):
            console.print(table)
        shown = console.file.getvalue()  # type: ignore[attr-defined]
        assert max(map(len, shown.splitlines())) <= 100
        assert "+25.0%" in shown
        assert "…" not in shown
