"""The paper's figures and tables as frames: one function each (Han et al. 2021, Sec. 4).

Times are the cost model's on the testbed, at the paper's size, or the virtual seconds of simulated
trainings, which are the same by `workbench.edgegossip.simulations`. Accuracy is learnt for real, by
what `SCALES` says. What is timed on this machine says so: `fig3`, `fig7`, `table3`. Figures 9 to 11
are in `workbench.edgegossip.prediction_experiments`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from statistics import fmean
from typing import NamedTuple

import numpy as np
import polars as pl

from workbench import datasets
from workbench.datasets import Dataset
from workbench.edgegossip import calibration
from workbench.edgegossip.aggregation import (
    TECHNIQUES,
    Aggregation,
    aggregate,
    generation,
    operations,
)
from workbench.edgegossip.aggregation.costs import SELECTED
from workbench.edgegossip.calibration import DEPLOYMENTS, EPOCHS, MODELS
from workbench.edgegossip.costs import Epoch, total_s
from workbench.edgegossip.selection import STRATEGIES
from workbench.edgegossip.simulations import Case, Learning, Plain, curve, deployed, train
from workbench.edgegossip.testbed import (
    PLATFORMS,
    POINTS,
    STATED,
    UPLINK_MBPS,
    Constants,
    Testbed,
    paper_testbed,
)
from workbench.names import choose
from workbench.runtime import Crash, Fault, Restart, SlowDown, progress
from workbench.training.repeatable import SHUFFLE
from workbench.zoo import MODELS as ZOO

RATIOS: tuple[float, ...] = tuple(STATED["aggregation"]["ratios"])
IMBALANCES = (1.0, 3.0, 5.0)


class Scale(NamedTuple):
    """What is trained and measured."""

    learner: str | None  # None: the model that is timed
    samples: int | None  # for training; None for as many as the paper has
    test_samples: int | None
    epochs: int  # on the first deployment; larger ones have as many steps
    batch_size: int
    learning_rate: float
    evaluate_every: int
    seeds: int
    all_techniques: Sequence[str]  # models for which each technique is trained; else the first
    deployments: Sequence[int]  # Fig. 6, trained
    passes: int  # Fig. 3: over the aggregated points
    aggregated: int  # Fig. 7: points at most
    repeats: int  # Fig. 7


SCALES = {
    "smoke": Scale("lenet5", 240, 60, 2, 16, 0.02, 1, 1, MODELS[1:2], (8,), 2, 1000, 1),
    "default": Scale("lenet5", 1500, 1000, 20, 32, 0.04, 4, 3, MODELS[1:2], (8,), 25, 5000, 3),
    "paper": Scale(
        None, POINTS, None, EPOCHS, 64, 0.01, 1, 3, MODELS, DEPLOYMENTS[1:], 100, POINTS, 3
    ),
}
"""What each scale means for this system. Times are always those of the paper's size."""


def learnt_from(scale: str, model: str, dataset: str = "auto") -> str:
    """Name what a model learns from unless told.

    At scale ``paper`` the paper's own: MNIST with LeNet-5, else CIFAR-10. At ``default`` MNIST
    where a copy is on this machine (see `workbench.datasets.data_folder`), else digits, which need
    no network; at ``smoke`` digits.
    """
    if dataset != "auto":
        return dataset
    if scale == "paper":
        return "mnist" if model == "lenet5" else "cifar10"
    return "mnist" if scale == "default" and _mnist_present() else "digits"


def _mnist_present() -> bool:
    from workbench.datasets import data_folder
    from workbench.datasets.mnist import FILES, MNIST

    return all((data_folder() / MNIST.layout / name).is_file() for name in FILES)


def fig5(scale: str = "default", seed: int = 1, dataset: str = "auto") -> pl.DataFrame:
    """Accuracy against training time on the first deployment, by model and technique (Fig. 5).

    Deviation: below scale ``paper`` LeNet-5 learns in the place of all four models, with their
    times and hence their ratios; and only some models are trained with all three techniques.

    Returns
    -------
    polars.DataFrame
        A row per evaluated epoch of each training: ``model, learner, dataset, train_samples,
        test_samples, platforms, method`` (``gosgd``, ``edgegossip``), ``technique`` (null of
        GoSGD), ``ratio, strategy, order, imbalance, seed, epoch, at_s`` (virtual seconds), ``top1``
        (mean over the platforms) and ``kept``, the share of samples learnt from.
    """
    sizes = choose("scale", scale, SCALES)
    cases = []
    for model in MODELS:
        techniques = SELECTED if model in sizes.all_techniques else SELECTED[:1]
        cases += [Case(model, technique=technique) for technique in techniques]
    return _trainings("Figure 5", scale, seed, dataset, cases)


def fig6(uplink_mbps: float = UPLINK_MBPS, epochs: int = EPOCHS) -> pl.DataFrame:
    """Training time by model and number of platforms, by the cost model (Fig. 6).

    Returns
    -------
    polars.DataFrame
        A row per setting: ``model, platforms, uplink_mbps, epochs, gosgd_s, edgegossip_s, speedup,
        exchange_s`` (of an epoch) and ``kept``, the share of samples that EdgeGossip learns from.
    """
    rows = []
    for model, platforms in calibration.settings():
        deployment = paper_testbed().deployment(model, platforms, uplink_mbps=uplink_mbps)
        plain = deployment.course(epochs)
        ours = deployment.course(epochs, deployment.aggregating())
        rows.append(
            {
                "model": model,
                "platforms": platforms,
                "uplink_mbps": uplink_mbps,
                "epochs": epochs,
                "gosgd_s": total_s(plain),
                "edgegossip_s": total_s(ours),
                "speedup": total_s(plain) / total_s(ours),
                "exchange_s": deployment.exchange_s,
                "kept": sum(one.samples for one in ours) / sum(one.samples for one in plain),
            }
        )
    return pl.DataFrame(rows)


def fig6_accuracy(scale: str = "default", seed: int = 1, dataset: str = "auto") -> pl.DataFrame:
    """Accuracy on larger deployments, LeNet-5 and AlexNet; columns as in `fig5`."""
    sizes = choose("scale", scale, SCALES)
    cases = [Case(model, platforms) for platforms in sizes.deployments for model in MODELS[:2]]
    return _trainings("Figure 6", scale, seed, dataset, cases)


def fig12(scale: str = "default", seed: int = 1, dataset: str = "auto") -> pl.DataFrame:
    """LeNet-5 on four CPU platforms, two of them 1, 3 and 5 times slower; columns as in `fig5`."""
    cases = [
        Case("lenet5", ("cpu",) * 4, slower=(1.0, 1.0, factor, factor)) for factor in IMBALANCES
    ]
    return _trainings("Figure 12", scale, seed, dataset, cases)


def fig13(scale: str = "default", seed: int = 1, dataset: str = "auto") -> pl.DataFrame:
    """LeNet-5 by aggregation ratio; columns as in `fig5`."""
    cases = [Case("lenet5", ratio=ratio) for ratio in RATIOS]
    return _trainings("Figure 13", scale, seed, dataset, cases)


def strategies(scale: str = "default", seed: int = 1, dataset: str = "auto") -> pl.DataFrame:
    """Ways to choose samples, on AlexNet's times; columns as in `fig5`.

    Not in the paper: what its ranking is worth beside choosing at random or by each point's own
    loss, and what learning in the order of the ranking does.
    """
    cases = [Case(MODELS[1], strategy=name) for name in STRATEGIES]
    cases.append(Case(MODELS[1], order="ranked"))
    return _trainings("Strategies", scale, seed, dataset, cases)


_NULLABLE = {
    **dict.fromkeys(("technique", "strategy", "order"), pl.String()),
    "ratio": pl.Float64(),
}  # of GoSGD there is none


def _trainings(
    title: str, scale: str, seed: int, dataset: str, cases: Sequence[Case]
) -> pl.DataFrame:
    """Train each case with EdgeGossip and, once for those of equal times, with GoSGD."""
    sizes = choose("scale", scale, SCALES)
    frames, plain_done = [], set()
    with progress.steps(title, sizes.seeds * len(cases)) as told:
        for of_seed in range(seed, seed + sizes.seeds):
            for case in cases:
                one = case._replace(seed=of_seed)
                told(f"{one.model}, {one.technique}, seed {of_seed}")
                source = learnt_from(scale, one.model, dataset)
                plain = one.model, one.platforms, one.slower, of_seed
                if plain not in plain_done:
                    plain_done.add(plain)
                    frames.append(_about(one, "gosgd", sizes, source))
                frames.append(_about(one, "edgegossip", sizes, source))
    return pl.concat(frames)


def _about(case: Case, method: str, sizes: Scale, source: str) -> pl.DataFrame:
    """One training's curve, with what it is of."""
    plain = method == "gosgd"
    asked = Case(case.model, case.platforms, seed=case.seed, slower=case.slower) if plain else case
    found = _curve(asked, method, sizes, source)
    data = _learning(sizes, source, case).data
    about = {
        "model": case.model,
        "learner": sizes.learner or case.model,
        "dataset": data.name,
        "train_samples": len(data.y_train),
        "test_samples": len(data.y_test),
        "platforms": _count(case),
        "method": method,
        "technique": None if plain else case.technique,
        "ratio": None if plain else case.ratio,
        "strategy": None if plain else case.strategy,
        "order": None if plain else case.order,
        "imbalance": max(case.slower) if case.slower else 1.0,
        "seed": case.seed,
    }
    left = pl.DataFrame([about] * len(found), schema_overrides=_NULLABLE)
    return left.hstack(found.select("epoch", "at_s", "top1", "kept"))


@lru_cache(maxsize=512)
def _curve(case: Case, method: str, sizes: Scale, source: str) -> pl.DataFrame:
    """The curve of a training; figures that share one train it once."""
    learning = _learning(sizes, source, case)
    if method == "gosgd":
        return _plain(sizes, source, sizes.learner or case.model, _count(case)).curve(case)
    trained = train(case, learning)
    if trained.run.interrupted:
        raise KeyboardInterrupt  # half a training would compare nothing
    return curve(trained, len(learning.data.y_train))


@lru_cache(maxsize=64)
def _plain(sizes: Scale, source: str, learner: str, platforms: int) -> Plain:
    return Plain(_learning(sizes, source, Case(learner, platforms)))


def _learning(sizes: Scale, source: str, case: Case) -> Learning:
    """What learns in a case.

    On more platforms an epoch has fewer steps, so there are so many more epochs.
    """
    data = _data(source, sizes.samples, sizes.test_samples)
    return Learning(
        sizes.learner or case.model,
        data,
        max(1, sizes.epochs * _count(case) // PLATFORMS),
        sizes.batch_size,
        sizes.learning_rate,
        sizes.evaluate_every,
    )


def _count(case: Case) -> int:
    return case.platforms if isinstance(case.platforms, int) else len(case.platforms)


@lru_cache(maxsize=8)
def _data(source: str, samples: int | None, test_samples: int | None) -> Dataset:
    return datasets.load(source).limit(train=samples, test=test_samples)


def fig3(scale: str = "default", seed: int = 1, dataset: str = "auto") -> pl.DataFrame:
    """Eight ways to aggregate: seconds on this machine, and accuracy from what they make (Fig. 3).

    A model is trained on the aggregated points alone, one for five originals, on one machine.

    Deviation: below scale ``paper`` LeNet-5 and the data of `fig5` instead of AlexNet and CIFAR-10.

    Returns
    -------
    polars.DataFrame
        A row per technique and seed: ``technique, learner, dataset, train_samples, aggregated,
        seed, reduce_s, divide_s, aggregate_s, total_s, top1``.
    """
    sizes = choose("scale", scale, SCALES)
    learner = sizes.learner or MODELS[1]
    data = _data(learnt_from(scale, learner, dataset), sizes.samples, sizes.test_samples)
    fitted = data.fitted(ZOO[learner].input_shape)
    generation(fitted.x_train[:64], fitted.y_train[:64], TECHNIQUES, [5.0])  # what loads late
    rows = []
    with progress.steps("Figure 3", sizes.seeds * len(TECHNIQUES)) as told:
        for of_seed in range(seed, seed + sizes.seeds):
            for technique in TECHNIQUES:
                told(f"{technique}, seed {of_seed}")
                times = generation(
                    fitted.x_train, fitted.y_train, [technique], [5.0], seed=of_seed
                ).row(0, named=True)
                made = aggregate(fitted.x_train, fitted.y_train, technique, 5.0, of_seed)
                top1 = _taught(learner, fitted, made, sizes, of_seed)
                rows.append(
                    {
                        "technique": technique,
                        "learner": learner,
                        "dataset": fitted.name,
                        "train_samples": len(fitted.y_train),
                        "aggregated": len(made),
                        "seed": of_seed,
                        **{key: times[key] for key in times if key.endswith("_s")},
                        "top1": top1,
                    }
                )
    return pl.DataFrame(rows)


def _taught(learner: str, data: Dataset, made: Aggregation, sizes: Scale, seed: int) -> float:
    """Top-1 accuracy of a model that learns from aggregated points alone."""
    from workbench import training

    with training.fixed_threads():
        module = training.initialise(learner, seed, classes=len(data.classes))
        flat = training.flatten(module, data.input_shape)
        sgd = training.Sgd(sizes.learning_rate, momentum=STATED["training"]["momentum"])
        velocity, step = sgd.start(flat.parameters), 0
        x, y = np.asarray(made.points, np.float32), made.labels
        for turn in range(sizes.passes):
            stream = np.random.SeedSequence(seed, spawn_key=(SHUFFLE, turn))
            order = np.random.default_rng(stream).permutation(len(y))
            for batch in np.split(order, range(sizes.batch_size, len(y), sizes.batch_size)):
                training.gradient_step(flat, x[batch], y[batch], seed=step)
                sgd.step(flat.parameters, flat.gradients, velocity)
                step += 1
        return training.evaluate(flat.module, data.x_test, data.y_test).top1


def fig7(scale: str = "default", seed: int = 1, dataset: str = "auto") -> pl.DataFrame:
    """Seconds of the steps of aggregating, on this machine, by technique and ratio (Fig. 7).

    Returns
    -------
    polars.DataFrame
        A row per model (whose input the images are fitted to), technique, ratio and repetition:
        ``model, dataset, points, features, technique, ratio, repeat, aggregated, reduce_s,
        divide_s, aggregate_s, total_s``.
    """
    sizes = choose("scale", scale, SCALES)
    frames = []
    with progress.steps("Figure 7", 2) as told:
        for model in MODELS[:2]:
            told(model)
            data = _data(learnt_from(scale, model, dataset), sizes.aggregated, sizes.test_samples)
            fitted = data.fitted(ZOO[model].input_shape)
            measured = generation(
                fitted.x_train, fitted.y_train, SELECTED, RATIOS, repeats=sizes.repeats, seed=seed
            )
            about = {
                "model": model,
                "dataset": data.name,
                "points": len(fitted.y_train),
                "features": fitted.x_train[0].size,
            }
            frames.append(pl.DataFrame([about] * len(measured)).hstack(measured))
    return pl.concat(frames)


def table3(measured: pl.DataFrame) -> pl.DataFrame:
    """Operations of reducing and dividing as Table 3 counts them, beside `fig7`'s seconds.

    Returns
    -------
    polars.DataFrame
        A row per model, technique, ratio and step: ``model, technique, ratio, step, operations,
        median_s`` and ``operations_per_s`` of the two.
    """
    medians = measured.group_by(
        "model", "points", "features", "technique", "ratio", maintain_order=True
    ).agg(pl.col("reduce_s", "divide_s").median())
    rows = []
    for row in medians.iter_rows(named=True):
        counted = operations(row["technique"], row["points"], row["features"], row["ratio"])
        for step, count in zip(("reduce", "divide"), counted, strict=True):
            seconds = row[f"{step}_s"]
            rows.append(
                {
                    **{name: row[name] for name in ("model", "technique", "ratio")},
                    "step": step,
                    "operations": count,
                    "median_s": seconds,
                    "operations_per_s": count / seconds if seconds else None,
                }
            )
    return pl.DataFrame(rows)


def fig8(epochs: int = EPOCHS) -> pl.DataFrame:
    """Time at work: aggregated points against retained samples, by the cost model (Fig. 8).

    The deployment is the first. The technique does not matter here.

    Returns
    -------
    polars.DataFrame
        A row per model, ratio and kind of platforms (``CPU``, ``GPU``, ``all``): ``model, ratio,
        kind, ranking_s, learning_s`` (means of a platform's epoch, after the first) and
        ``percent`` of the time at work that goes into ranking.
    """
    rows = []
    for model in MODELS[:2]:
        deployment = paper_testbed().deployment(model)
        for ratio in RATIOS:
            course = deployment.course(epochs, deployment.aggregating(ratio=ratio))
            kind_of = [
                "CPU" if one.name.startswith("cpu") else "GPU" for one in deployment.platforms
            ]
            for kind in ("CPU", "GPU", "all"):
                of_kind = [
                    one for one in course if one.epoch > 1 and kind in (kind_of[one.node], "all")
                ]
                rows.append({"model": model, "ratio": ratio, "kind": kind, **_at_work(of_kind)})
    return pl.DataFrame(rows)


def _at_work(epochs: Sequence[Epoch]) -> dict[str, float]:
    ranking_s = fmean(one.select_s for one in epochs)
    learning_s = fmean(one.learn_s for one in epochs)
    percent = 100 * ranking_s / (ranking_s + learning_s)
    return {"ranking_s": ranking_s, "learning_s": learning_s, "percent": percent}


def dropouts(scale: str = "default", seed: int = 1, dataset: str = "auto") -> pl.DataFrame:
    """Ten platforms of which some fail, on AlexNet's times, with both methods.

    Not in the paper, which cites drop-outs of 6 to 10 % and leaves the handling open: ``one comes
    back`` (10 %: meanwhile its points are left out), ``two leave`` (20 %: the others take their
    points over), ``one slows down``, three times.

    Returns
    -------
    polars.DataFrame
        A row per evaluated epoch: ``scenario, method, platforms, dataset, learner, train_samples,
        seed, epoch, at_s, top1, kept``.
    """
    sizes = choose("scale", scale, SCALES)
    learner = sizes.learner or MODELS[1]
    source = learnt_from(scale, MODELS[1], dataset)
    case = Case(MODELS[1], 10, seed=seed)
    learning = replace(_learning(sizes, source, case), epochs=6 * sizes.epochs // 5)
    points = len(learning.data.y_train)
    epoch_s = total_s(deployed(case, points).course(learning.epochs)) / learning.epochs
    rows = []
    scenarios = _scenarios(epoch_s)
    with progress.steps("Drop-outs", 2 * len(scenarios)) as told:
        for scenario, faults in scenarios.items():
            for method in ("gosgd", "edgegossip"):
                told(f"{scenario}, {method}")
                trained = train(case, learning, method, faults=faults, patience_s=epoch_s)
                about = {
                    "scenario": scenario,
                    "method": method,
                    "platforms": 10,
                    "dataset": learning.data.name,
                    "learner": learner,
                    "train_samples": points,
                    "seed": seed,
                }
                found = curve(trained, points).select("epoch", "at_s", "top1", "kept")
                rows += [about | row for row in found.iter_rows(named=True)]
    return pl.DataFrame(rows)


def _scenarios(epoch_s: float) -> dict[str, tuple[Fault, ...]]:
    """Faults by name; `epoch_s` is about what an epoch of GoSGD takes."""
    at_s = 1.3 * epoch_s
    return {
        "nobody fails": (),
        "two leave": (Crash(1, at_s), Crash(7, at_s)),
        "one comes back": (Crash(1, at_s), Restart(1, at_s + 2 * epoch_s)),
        "one slows down": (SlowDown(1, at_s, 1e9, 3.0),),
    }


def explanations() -> pl.DataFrame:
    """What each explanation of the speed-up predicts beside it.

    Returns
    -------
    polars.DataFrame
        A row per explanation and claim: ``explanation, claim, role, ours, paper``.
    """
    rows = [
        {
            "explanation": name,
            "claim": claim,
            "role": "fitted" if claim == calibration.FITTED_ON else "predicted",
            "ours": ours,
            "paper": paper,
        }
        for name in calibration.EXPLANATIONS
        for claim, (ours, paper) in calibration.predicted(Testbed(Constants.load(name))).items()
    ]
    return pl.DataFrame(rows)


def final(frame: pl.DataFrame) -> pl.DataFrame:
    """Last epoch of each training: time and accuracy of GoSGD and EdgeGossip side by side.

    Returns
    -------
    polars.DataFrame
        A row per training of EdgeGossip: what it is of, ``gosgd_top1, top1, lost_points`` (GoSGD's
        accuracy less EdgeGossip's, percentage points), ``gosgd_s, at_s`` and ``speedup``.
    """
    last = frame.filter(pl.col("epoch") == pl.col("epoch").max().over("platforms"))
    key = ["model", "platforms", "imbalance", "seed"]
    plain = last.filter(method="gosgd").select(*key, gosgd_top1="top1", gosgd_s="at_s")
    return (
        last.filter(method="edgegossip")
        .join(plain, on=key)
        .with_columns(
            lost_points=100 * (pl.col("gosgd_top1") - pl.col("top1")),
            speedup=pl.col("gosgd_s") / pl.col("at_s"),
        )
    )


def table(frame: pl.DataFrame, *by: str) -> pl.DataFrame:
    """`final` over the seeds: means, and the spread of what is lost (standard deviation)."""
    lost = pl.col("lost_points")
    return (
        final(frame)
        .group_by(*by, maintain_order=True)
        .agg(
            seeds=pl.col("seed").n_unique(),
            gosgd_percent=100 * pl.col("gosgd_top1").mean(),
            edgegossip_percent=100 * pl.col("top1").mean(),
            lost_points=lost.mean(),
            spread_points=lost.std(),
            speedup=pl.col("speedup").mean(),
            kept=pl.col("kept").mean(),
        )
    )


def clear() -> None:
    """Forget trainings that were kept for other figures."""
    for kept in (_curve, _plain, _data):
        kept.cache_clear()
