"""The table of a comparison, and its answer in sentences."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from tests.comparison.clusters import at_home, home
from tests.comparison.test_memory import of
from workbench.cli import app
from workbench.clusters import Cluster, Link, Node, UnknownNodeError, full_mesh, star
from workbench.comparison import METHODS, Comparison, Problem, compare, explorer
from workbench.comparison.compare import compared, lead
from workbench.comparison.intervals import kinds_of, with_intervals
from workbench.comparison.memory import memory_of
from workbench.comparison.methods.method import EQUAL
from workbench.comparison.table import MOST_ROWS, SCHEMA, best
from workbench.comparison.text import parse_times, shown
from workbench.profiles import LayerTimes, profile_model
from workbench.utils.checks import UserError
from workbench.zoo.convolutional import lenet5

LENET = profile_model("lenet5")


@pytest.fixture
def frame() -> pl.DataFrame:
    return at_home().frame


def pair(**about: float) -> Cluster:
    return full_mesh([Node(name, flops_per_s=1e9, **about) for name in "ab"], Link(1e7))  # type: ignore[arg-type]


def row_of(frame: pl.DataFrame, method: str) -> dict[str, Any]:
    return frame.row(by_predicate=pl.col("method") == method, named=True)


class TestCompare:
    def test_every_method_is_a_row_that_has_a_rate_or_a_reason(self, frame: pl.DataFrame) -> None:
        assert sorted(frame["method"]) == sorted(METHODS)
        assert (frame["samples_per_s"].is_null() == frame["reason"].is_not_null()).all()

    def test_methods_that_equal_sgd_on_all_samples_come_first(self, frame: pl.DataFrame) -> None:
        exact = (frame["update"] == EQUAL) & (frame["samples_share"] == 1)
        count = int(exact.sum())
        assert exact.head(count).all()
        assert frame.head(count)["samples_per_s"].is_sorted(descending=True)

    def test_samples_stay_where_rules_keep_them(self) -> None:
        moved = at_home(may_leave=False).frame.filter("raw_samples_move")
        assert len(moved) > 1
        assert moved["reason"].str.contains("may not leave").all()

    def test_one_node_alone_has_no_other_method(self) -> None:
        frame = compare("lenet5", Cluster([Node("laptop", flops_per_s=1e10)])).frame
        assert frame.filter(pl.col("reason").is_null())["method"].to_list() == ["one node"]

    def test_method_that_does_not_fit_is_marked_and_not_the_answer(self) -> None:
        found = at_home(1000, 8, model="resnet18", memory_bytes=1e8)
        row = row_of(found.frame, "one node")
        assert row["fits"] is False
        assert row["memory_node"] == "board0"
        assert found.method == "pipeline, 1f1b"
        assert row_of(found.frame, "one node, samples sent once")["fits"] is not False

    def test_cost_models_of_papers_stand_beside_what_is_simulated(
        self, frame: pl.DataFrame
    ) -> None:
        known = frame.filter(pl.col("predicted_samples_per_s").is_not_null())
        assert set(known["system"]) >= {"DynaComm", "OLPB"}
        own = known.filter(system="DynaComm")
        ratio = own["predicted_samples_per_s"] / own["samples_per_s"]
        assert ratio.is_between(0.99, 1.5).all()  # none knows how long others hold the server up

    def test_over_one_node_is_the_rate_over_that_of_one_node(self, frame: pl.DataFrame) -> None:
        alone = row_of(frame, "one node")
        assert alone["over_one_node"] == 1
        wanted = frame["samples_per_s"] / alone["samples_per_s"]
        assert (frame["over_one_node"] - wanted).abs().max() == 0

    def test_joules_are_from_the_watts_of_nodes_that_take_part(self, frame: pl.DataFrame) -> None:
        row = row_of(frame, "one node")
        assert row["joules_per_1000_samples"] == pytest.approx(5 * 1000 / row["samples_per_s"])
        assert row["price_per_1000_samples"] is None

    def test_own_machine_costs_nothing_beside_a_rented_one(self) -> None:
        own = Node("laptop", flops_per_s=1e11, samples=100, price_per_hour=0)
        rented = Node("gpu", flops_per_s=8e12, price_per_hour=0.6)
        frame = compare("lenet5", full_mesh([own, rented], Link(1e9))).frame
        alone, sent = (
            row_of(frame, method) for method in ("one node", "one node, samples sent once")
        )
        assert alone["price_per_1000_samples"] == 0
        hours = 1000 / sent["samples_per_s"] / 3600
        assert sent["price_per_1000_samples"] == pytest.approx(0.6 * hours)

    @pytest.mark.parametrize("method", ["parameter server, sequential", "fedavg"])
    def test_server_takes_watts_and_memory(self, method: str) -> None:
        boards = [Node(f"board{at}", flops_per_s=8e9, samples=10, watts=5) for at in range(3)]
        edge = Node("edge", flops_per_s=2e11, watts=50, memory_bytes=1e9)
        problem = Problem(LENET, star(boards, [edge], Link(1e7)), memory=of("lenet5"))
        row = row_of(compared(problem, [METHODS[method]]).frame, method)
        assert row["joules_per_1000_samples"] == pytest.approx(65 * 1000 / row["samples_per_s"])
        assert row["memory_node"] == "edge"
        assert row["memory_bytes"] == 2 * LENET.table["param_bytes"].sum()
        assert row["fits"] is None  # the boards do not state their memory

    def test_memory_of_a_module_is_that_of_the_zoo(self) -> None:
        stored = memory_of("lenet5", None, "float32")
        traced = memory_of(lenet5(), (1, 28, 28), "float32")
        assert stored is not None
        assert traced is not None
        for samples in (8, 32, 100):
            assert traced(samples) == pytest.approx(stored(samples), rel=0.02)

    def test_memory_of_a_profile_alone_is_not_known(self) -> None:
        frame = compare(LENET, pair(memory_bytes=1e9)).frame
        assert frame["memory_bytes"].is_null().all()
        assert frame["fits"].is_null().all()


class TestAnswer:
    def test_the_threshold_is_where_the_winner_changes(self) -> None:
        found = at_home(2, 8, may_leave=False)
        assert found.threshold is not None
        mbps = found.threshold.bandwidth_mbps
        factor = 1.03 if found.threshold.above else 1 / 1.03
        before, after = (
            at_home(one, 8, may_leave=False).system for one in (mbps / factor, mbps * factor)
        )
        assert before == found.system != after
        text = str(found)
        assert "as fast as the runner-up" in text
        assert "% of the time" in text
        assert "becomes the fastest at " in text
        assert found.threshold.links.startswith("all links like board")
        assert f"({found.threshold.links})" in text
        assert "If updates may differ, " in text
        assert "On some of the samples, one node (33 %) is " in text

    def test_answer_says_how_many_methods_lack_memory_and_what_smaller_batches_do(self) -> None:
        board = Node("board", flops_per_s=8e9, samples=1000, memory_bytes=1e3)
        pair = full_mesh([board, Node("edge", flops_per_s=2e11, memory_bytes=8e9)], Link(1e9))
        unfit = compare("resnet18", pair, 8)
        assert re.search(r"\d+ other methods that equal SGD do not fit in memory", str(unfit))
        assert unfit.smaller_batches is None
        chips = compare("lenet5", home(memory_bytes=2e6), 64)
        assert chips.method == "one node, samples sent once"
        smaller = "With batches of 16 accumulated 4 times, these fit: all-reduce; parameter server"
        assert smaller in str(chips)

    def test_answer_that_names_a_pipeline_says_that_others_do_not_split_batches(self) -> None:
        said = "Pipelines alone split a batch into micro-batches by themselves, so the order"
        assert said in str(at_home(1000, 8, model="resnet18", memory_bytes=1e8))
        assert said not in str(at_home(2, 8, may_leave=False))

    def test_samples_that_nobody_states_and_those_left_out_are_assumptions(
        self, frame: pl.DataFrame
    ) -> None:
        assert compare("lenet5", pair()).frame["assumes"][0].count("none says how many") == 1
        rows = frame.filter(pl.col("samples_share") < 1)["assumes"]
        assert rows.str.contains("not learnt from: the samples of board").all()

    def test_answer_says_where_the_fastest_method_runs(self) -> None:
        assert str(at_home(1000)).startswith("One node, samples sent once (on edge)")

    @pytest.mark.parametrize("mbps", [2, 20])
    def test_the_table_has_the_answer_and_its_runner_up_of_another_system(self, mbps: int) -> None:
        found = at_home(mbps, 8, may_leave=mbps > 2)
        first, second = found.best().head(2).iter_rows(named=True)
        assert first["method"] == found.method
        assert first["system"] != second["system"]
        ratio = first["samples_per_s"] / second["samples_per_s"]
        times = f"{ratio:.3g} x " if ratio > 1.005 else ""
        assert f"It is {times}as fast as the runner-up, " in str(found)
        assert METHODS[second["method"]].label in str(found)

    def test_tied_methods_are_called_as_fast(self) -> None:
        rows = [("all-reduce", "all-reduce", 10.0), ("hiertrain", "HierTrain", 9.99)]
        frame = pl.DataFrame(rows, schema=["method", "system", "samples_per_s"], orient="row")
        frame = frame.with_columns(limited_by=pl.lit("phone"), busy_share=0.5)
        kinds = {name: kinds_of(METHODS[name]) for name in frame["method"]}
        assert lead(with_intervals(frame, kinds)) == (
            "All-reduce comes first: phone is busy for 50 % of the time.",
            "It is as fast as the runner-up, HierTrain (too close to call).",
        )

    def test_explorer_and_answer_say_the_same(self) -> None:
        setting = explorer.Setting(model="lenet5")
        said = str(compare("lenet5", explorer.cluster_of(setting), setting.batch_size))
        ratio = re.search(r"It is (\S+) x as fast as the runner-up", said)
        assert ratio is not None
        assert ratio[0] in str(explorer.draw(setting)["title"])

    def test_answer_says_that_no_method_fits(self) -> None:
        cluster = Cluster([Node("chip", flops_per_s=1e6, memory_bytes=1e3)])
        assert "No method" in str(compare("lenet5", cluster))


def rows(*of: tuple[str, str, str, float, float]) -> pl.DataFrame:
    """Rows of a comparison: method, system, update, samples a second and share of the samples."""
    names = ("method", "system", "update", "samples_per_s", "samples_share")
    return pl.DataFrame([dict(zip(names, one, strict=True)) for one in of], schema=SCHEMA)


class TestBest:
    """The best method of each kind."""

    def test_is_the_fastest_with_those_that_are_about_as_fast_counted(self) -> None:
        found = best(
            rows(
                ("a", "A", EQUAL, 100, 1),
                ("b", "A", EQUAL, 98.1, 1),
                ("c", "A", EQUAL, 97.9, 1),
                ("d", "A", "averages models", 30, 1),
                ("e", "A", "old gradients", 30, 1),
                ("f", "A", EQUAL, 500, 0.5),
            )
        )
        assert found.select("method", "alike").rows() == [("a", 1), ("d", 1), ("f", 0)]

    def test_far_slower_ones_and_those_without_memory_are_left_out(self) -> None:
        frame = rows(
            ("a", "A", EQUAL, 100, 1), ("b", "B", EQUAL, 1.01, 1), ("c", "C", EQUAL, 0.99, 1)
        )
        assert best(frame)["method"].to_list() == ["a", "b"]
        unfit = frame.with_columns(fits=pl.col("method") != "a")
        assert best(unfit)["method"].to_list() == ["b", "c"]
        assert best(frame.with_columns(reason=pl.lit("no"))).is_empty()

    def test_faster_methods_of_another_kind_leave_none_out_that_equals_sgd(self) -> None:
        others = [(f"o{at}", f"S{at}", "averages models", 1e6, 1.0) for at in range(MOST_ROWS)]
        found = best(rows(("a", "A", EQUAL, 1, 1), ("b", "B", EQUAL, 0.5, 1), *others))
        assert found["method"].to_list()[:2] == ["a", "b"]
        assert len(found) == MOST_ROWS

    def test_of_more_kinds_than_fit_a_screen_the_slowest_are_left_out(self) -> None:
        frame = rows(*((f"w{at}", f"S{at}", EQUAL, 10.0 + at, 1.0) for at in range(15)))
        assert best(frame)["method"].to_list() == [f"w{at}" for at in range(15 - MOST_ROWS, 15)]


def printed(found: Comparison, width: int = 100, *, every: bool = False) -> str:
    """The table, as a terminal of `width` columns shows it."""
    console = Console(width=width, file=StringIO())
    for each in shown(found, "LeNet-5", width, every=every):
        console.print(each)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


class TestText:
    def test_expenses_are_shown_where_nodes_state_them(self) -> None:
        assert "J a 1000" in printed(at_home(20, 8))
        assert "J a 1000" not in printed(compare("lenet5", pair()))

    def test_blank_lines_part_methods_whose_rates_do_not_compare(self) -> None:
        body = printed(at_home(20, 8), 160).partition("───")[2].partition("samples/s (low-high)")[0]
        lines = [line.strip() for line in body.splitlines()[1:]]
        parts = " ".join(line or "|" for line in lines).split("|")
        assert ["hiertrain" in part for part in parts if part] == [True, False, False]
        assert ["fedavg" in part for part in parts if part] == [False, False, True]
        assert "rates compare within a part" in " ".join(printed(at_home(20, 8)).split())

    def test_without_a_method_that_fits_there_is_no_table(self) -> None:
        chip = Cluster([Node("chip", flops_per_s=1e6, memory_bytes=1e3)])
        assert printed(compare("lenet5", chip)).startswith("Left out: 1 that need more memory")

    def test_a_name_from_one_paper_is_explained(self) -> None:
        title = "synchronous exchange of whole gradients among peers"
        text = printed(at_home(20, 8), 200, every=True)
        assert all(word in text for word in f"baseline: {title}".split())
        assert METHODS["baseline"].label == f"DLion (baseline: {title})"
        assert METHODS["hiertrain"].label == "HierTrain"

    def test_a_dozen_rows_and_how_to_see_the_rest(self) -> None:
        text = printed(at_home(20, 8))
        assert "dlion" not in text  # max10 is faster
        assert re.search(r"Left out: \d+ slower than another of their system", text)
        for plan in ("--all", "--explain METHOD", "--csv FILE"):
            assert plan in text
        assert "samples/s (low-high): a 90 % interval" in text
        assert "Methods that share a letter are too close to call." in text

    @pytest.mark.parametrize("width", [80, 100, 160])
    def test_all_methods_are_shown_whole_however_narrow_the_terminal(self, width: int) -> None:
        text = printed(at_home(20, 8), width, every=True)
        assert max(len(line.rstrip()) for line in text.splitlines()) <= width
        assert "…" not in text
        words = " ".join(METHODS).split()
        assert [word for word in words if word not in text] == []
        assert "Left out" not in text

    def test_explanation_says_where_it_runs_and_what_it_assumes(self) -> None:
        found = at_home(20, 8)
        said = found.explain("one node, samples sent once")
        assert said.startswith("one node, samples sent once, of one node:\n")
        assert "\n  runs: on edge\n" in said
        assert "\n  90 % interval: " in said
        close = row_of(found.frame, "fedavg")["too_close"]
        assert "gossip" in close
        assert f"\n  too close to call with: {close}\n" in found.explain("fedavg")
        assert "assumes: the node keeps 3,000 samples" in said
        assert "by its own cost model" in found.explain("parameter server, dynacomm")
        equal = found.explain("all-reduce, batches by speed")
        assert equal.endswith("all nodes that hold samples are equally fast, so batches are equal")
        with pytest.raises(UserError, match="Did you mean 'gossip'"):
            found.explain("gosip")

    def test_times_are_those_of_a_node_or_of_all_of_a_group(self, tmp_path: Path) -> None:
        path = tmp_path / "times.parquet"
        LayerTimes.from_flops(LENET, flops_per_s=1e9, batch_size=4).save(path)
        assert list(parse_times([f"board={path}"], home())) == ["board0", "board1", "board2"]
        with pytest.raises(UnknownNodeError):
            parse_times([f"bord={path}"], home())
        longer = full_mesh([Node(name, flops_per_s=1e9) for name in ("pi", "pi2")], Link(1e6))
        assert list(parse_times([f"pi={path}"], longer)) == ["pi"]


class TestCommand:
    """``workbench compare``, as a user types it."""

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        path = tmp_path / "home.toml"
        path.write_text(
            '[[nodes]]\nname = "pi"\ncount = 2\ngflops = 8\nsamples = 100\n'
            '[[links]]\nbetween = ["pi", "pi"]\nmbps = 20\n',
            encoding="utf-8",
        )
        return path

    def run(self, *arguments: object) -> Result:
        return CliRunner(env={"COLUMNS": "200"}).invoke(app, ["compare", *map(str, arguments)])

    def test_prints_all_methods_and_the_answer_and_writes_all_columns(self, file: Path) -> None:
        csv = file.with_suffix(".csv")
        size = ("--batch-size", 8, "--csv", csv)
        explain = ("--explain", "fedavg", "--explain", "hiertrain")
        result = self.run("lenet5", "--cluster", file, *size, "--all", *explain)
        assert result.exit_code == 0, result.output
        assert all(method in result.stdout for method in METHODS)
        assert "of the time" in result.stdout
        assert "\nfedavg, of FedAvg:\n" in result.stdout
        assert "\nhiertrain, of HierTrain, cannot be used here: " in result.stdout
        written = pl.read_csv(csv)
        assert written["method"].n_unique() == len(METHODS)
        assert {"low_samples_per_s", "high_samples_per_s", "too_close"} < {*written.columns}

    def test_an_explanation_alone_needs_no_table(self, file: Path) -> None:
        result = self.run("lenet5", "--cluster", file, "--explain", "fedavg")
        assert result.exit_code == 0, result.output
        assert result.stdout.startswith("fedavg, of FedAvg:\n")

    def test_trains_and_writes_all_evaluations(self, file: Path) -> None:
        csv = file.with_suffix(".csv")
        size = ("--samples", 40, "--epochs", 1, "--seeds", 1, "--batch-size", 8)
        methods = ("--method", "all-reduce", "--method", "hiertrain")
        result = self.run("lenet5", "--cluster", file, "--train", *size, *methods, "--csv", csv)
        assert result.exit_code == 0, result.output
        assert "all-reduce reaches a test loss of " in result.stdout.splitlines()[-1]
        assert "device, edge and cloud need three nodes" in result.stdout
        assert pl.read_csv(csv)["method"].unique().to_list() == ["all-reduce"]

    def test_several_batch_sizes_give_a_row_each(self, file: Path) -> None:
        result = self.run("gpt_tiny", "--cluster", file, "--batch-size", "1,64")
        assert result.exit_code == 0, result.output
        rows = [line.split() for line in result.stdout.splitlines()]
        sizes = [row for row in rows if row[:1] in (["1"], ["64"])]
        assert [row[0] for row in sizes] == ["1", "64"]
        assert float(sizes[0][1]) < float(sizes[1][1])

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            *(
                (["lenet5", plan, value], f"{plan} counts with --train alone; add --train")
                for plan, value in (
                    ("--data", "digits"),
                    ("--samples", "2000"),
                    ("--seeds", "3"),
                )
            ),
            (["lenet5", "--train", "--batch-size", "1,8"], "--train takes one batch size"),
            (["lenet5", "--measure", "--batch-size", "1,8"], "--measure takes one batch size"),
            (["lenet5", "--explain", "gosip"], "Did you mean 'gossip'"),
            (["lenet5", "--train", "--data", "digitss"], "Did you mean 'digits'"),
            (
                ["gpt_tiny", "--train", "--data", "markov", "--inputs", "int64[16]"],
                "markov has int64[16] a sample, gpt_tiny takes int64[32]",
            ),
            (["lenet5", "--train", "--method", "gosip"], "Did you mean 'gossip'"),
            (["lenet5", "--train", "--method", "one nod"], "Known: one node; one node, samples"),
            (["lenet5", "--method", "gossip"], "--method counts with --train or --measure alone"),
            (["lenet5", "--measure", "--method", "gosip"], "Did you mean 'gossip'"),
            (["lenet5", "--train", "--samples", "0"], "samples is 0; it must be a whole number"),
            (["lenet5", "--train", "--seeds", "0"], "seeds is 0"),
            (["bert_tiny", "--train"], "for labels of shape (2, 128); a classifier gives"),
            (["lenet6"], "Did you mean 'lenet5'"),
            (["lenet5", "--inputs", "float32"], "give a type and a shape"),
            (["lenet5", "--batch-size", "0"], "batch_size=0"),
            (["lenet5", "--epochs", "0"], "epochs is 0"),
            (
                ["lenet5", "--cache-frozen"],
                "in front of the first trained one, and lenet5 has none",
            ),
            (["lenet5", "--cache-frozen", "--train"], "does not count with --train"),
            (["lenet5", "--times", "pi"], "give a node and a file"),
            (["lenet5", "--times", "pi=none.parquet"], "there is no file"),
            (["lenet5", "--csv", "nowhere/out.csv"], "there is no folder"),
            (["lenet5", "--csv", "."], "this is a folder; give a file"),
            (["lenet5", "--csv", "/proc/out.csv"], "it cannot be written there"),
            (
                ["lenet5", "--times", f"pi={__file__}"],
                "is damaged, or not a parquet file; workbench profile",
            ),
        ],
    )
    def test_refusal_is_one_line(self, file: Path, arguments: list[str], message: str) -> None:
        result = self.run(*arguments, "--cluster", file)
        assert result.exit_code == 2
        assert message in result.stderr
        assert len(result.stderr.splitlines()) == 1
