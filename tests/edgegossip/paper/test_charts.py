"""Titles of the charts, by hand: what learnt what, a semicolon between two sentences."""

import polars as pl

from workbench.edgegossip.paper import accuracy

DIGITS = {
    "dataset": "digits",
    "train_samples": 1442,
    "epoch": 1,
    "at_s": 1.0,
    "top1": 0.5,
    "reason": None,
}


def trained(learners: dict[str, str], seeds: int) -> pl.DataFrame:
    """As the frame of trainings, by each model's learner."""
    rows = [
        DIGITS | {"model": model, "learner": learner, "seed": seed, "ratio": 10.0} | how
        for seed in range(seeds)
        for model, learner in learners.items()
        for how in (
            {"method": "gosgd", "technique": None},
            {"method": "edgegossip", "technique": "svd_kmeans"},
        )
    ]
    strings = {"technique": pl.String, "reason": pl.String}
    return pl.DataFrame(rows, schema_overrides=strings)


def titled(chart: object) -> str:
    lines = chart.title  # type: ignore[attr-defined]
    return "; ".join(lines)


def test_who_stands_for_whom_cannot_be_misread() -> None:
    learners = {
        "lenet5": "lenet5",
        "alexnet_cifar": "alexnet_small",
        "squeezenet_cifar": "lenet5",
        "mobilenet_v2_cifar": "lenet5",
    }
    assert titled(accuracy.draw_by_model(trained(learners, 3))) == (
        "Accuracy and time; learnt: 1,442 samples of digits, by small AlexNet with the times of "
        "AlexNet; by LeNet-5 with the times of SqueezeNet and MobileNet-v2; mean and range of 3 "
        "seeds (simulated)"
    )
