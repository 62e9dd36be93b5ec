"""The explorer of pipelines: its plans, its table and its pictures."""

import pytest

from workbench.pipelines import iteration
from workbench.pipelines.costs import reductions
from workbench.pipelines.explorer import ORDERS, SHARED, Setting, balanced, draw, problem_of, table


@pytest.mark.parametrize("model", SHARED.values["model"])
@pytest.mark.parametrize("schedule", ORDERS)
def test_every_layer_is_in_a_stage_and_no_gradient_of_a_shared_weight_is_sent(
    model: str, schedule: str
) -> None:
    problem = problem_of(Setting(model=model))
    plan = balanced(problem, 4, schedule)
    layers = [layer for stage in plan.stages for layer in range(stage.first, stage.last + 1)]
    assert layers == list(range(1, problem.layers + 1))
    assert plan.nodes == tuple(range(problem.nodes))
    assert reductions(problem, plan) == []


def test_one_microbatch_takes_the_passes_and_messages_one_after_another() -> None:
    setting = Setting(model="vgg16", microbatches=1, workers=2)
    problem = problem_of(setting)
    plan = balanced(problem, 1, "gpipe")
    cut = plan.stages[0].last
    passes_s = problem.batch * (problem.forward_s + problem.backward_s)[0].sum()
    size_bytes = problem.batch * problem.output_bytes[cut - 1]
    link = problem.links[0, 1]
    message_s = link.overhead_s + link.transfer_s([size_bytes])
    updates_s = [problem.update_s[0, :cut].sum(), problem.update_s[0, cut:].sum()]
    behind_s = problem.batch * problem.backward_s[0, :cut].sum() + message_s
    expected_s = passes_s + 2 * message_s + max(updates_s[0], updates_s[1] - behind_s)
    assert iteration(problem, plan).total_s == pytest.approx(expected_s, rel=1e-9)


def test_table_has_all_orders_and_the_picture_says_the_rate() -> None:
    setting = Setting(model="vgg16", batch_size=8, microbatches=8)
    rows = table(setting)
    assert rows["schedule"].unique(maintain_order=True).to_list() == list(ORDERS)
    assert rows.filter(schedule="gpipe")["microbatches"].to_list() == [1, 2, 4, 8]
    rate = rows.filter(schedule="1f1b", microbatches=8)["over_one_node"].item()
    assert f"{rate:.3g} x one node" in draw(setting)["title"][1]
