"""The paper's figures and tables as frames: one function each (Han et al. 2021, Sec. 4).

Times are the cost model's on the testbed, at the paper's size, or the virtual seconds of simulated
trainings, which are the same by `simulations`. Accuracy is learnt for real, by
what `SCALES` says. What is timed on this machine says so: `fig3`, `fig7`, `table3`. Figures 9 to 11
are in `prediction_experiments`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np
import polars as pl

from workbench import parallel
from workbench.datasets import Dataset
from workbench.edgegossip.aggregation import (
    TECHNIQUES,
    Aggregation,
    aggregate,
    generation,
    operations,
)
from workbench.edgegossip.aggregation.costs import SELECTED
from workbench.edgegossip.algorithms import STRATEGIES
from workbench.edgegossip.costs.course import Epoch, selecting_share, total_s
from workbench.edgegossip.paper import calibration
from workbench.edgegossip.paper.calibration import EPOCHS, MODELS
from workbench.edgegossip.paper.overheads import with_overheads
from workbench.edgegossip.paper.scales import SCALES, Learner, learnt_from
from workbench.edgegossip.paper.simulations import Case, Learning, curve, deployed, train
from workbench.edgegossip.paper.testbed import (
    PLATFORMS,
    STATED,
    UPLINK_MBPS,
    Constants,
    Testbed,
    paper_testbed,
)
from workbench.edgegossip.paper.trainings import data, trainings
from workbench.interrupted import ExperimentInterrupted, keeping
from workbench.names import choose
from workbench.runtime import Crash, Fault, Restart, SlowDown, progress
from workbench.training.repeatable import SHUFFLE
from workbench.zoo import MODELS as ZOO

RATIOS: tuple[float, ...] = tuple(STATED["aggregation"]["ratios"])
IMBALANCES = (1.0, 3.0, 5.0)


def fig5(scale: str = "default", seed: int = 1, dataset: str = "auto") -> pl.DataFrame:
    """Accuracy against training time on the first deployment, by model and technique (Fig. 5).

    Deviation: below scale ``paper`` a small AlexNet learns in the place of AlexNet, and LeNet-5 in
    that of SqueezeNet and MobileNet-v2, with the times of these and hence their ratios; and only
    some models are trained with all three techniques.

    Returns
    -------
    polars.DataFrame
        As `workbench.edgegossip.paper.trainings.trainings` gives it.
    """
    sizes = choose("scale", scale, SCALES)
    cases = []
    for model in MODELS:
        techniques = SELECTED if model in sizes.all_techniques else SELECTED[:1]
        cases += [Case(model, technique=technique) for technique in techniques]
    return trainings("Figure 5", scale, seed, dataset, cases)


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
    return trainings("Figure 6", scale, seed, dataset, cases)


def fig12(scale: str = "default", seed: int = 1, dataset: str = "auto") -> pl.DataFrame:
    """LeNet-5 on four CPU platforms, two of them 1, 3 and 5 times slower (Fig. 12).

    Returns
    -------
    polars.DataFrame
        As `workbench.edgegossip.paper.overheads.with_overheads` gives it.
    """
    cases = [unequal(factor) for factor in IMBALANCES]
    return _with_overheads("Figure 12", scale, seed, dataset, cases)


def unequal(factor: float, seed: int = 1) -> Case:
    """LeNet-5 on four CPU platforms, of which two are so many times slower."""
    return Case("lenet5", ("cpu",) * 4, seed=seed, slower=(1.0, 1.0, factor, factor))


def fig13(scale: str = "default", seed: int = 1, dataset: str = "auto") -> pl.DataFrame:
    """LeNet-5 by aggregation ratio (Fig. 13); columns as in `fig12`."""
    cases = [Case("lenet5", ratio=ratio) for ratio in RATIOS]
    return _with_overheads("Figure 13", scale, seed, dataset, cases)


def _with_overheads(
    title: str, scale: str, seed: int, dataset: str, cases: Sequence[Case]
) -> pl.DataFrame:
    try:
        return with_overheads(trainings(title, scale, seed, dataset, cases), cases)
    except ExperimentInterrupted as stopped:
        raise ExperimentInterrupted(with_overheads(stopped.frame, cases)) from stopped.__cause__


def strategies(scale: str = "default", seed: int = 1, dataset: str = "auto") -> pl.DataFrame:
    """Ways to choose samples, on MobileNet-v2's times; columns as in `fig5`.

    Not in the paper: what its ranking is worth beside choosing at random or by each point's own
    loss, and what learning in the order of the ranking does.
    """
    cases = [Case(MODELS[3], strategy=name) for name in STRATEGIES]
    cases.append(Case(MODELS[3], order="ranked"))
    return trainings("Strategies", scale, seed, dataset, cases)


_FIG3 = {
    **dict.fromkeys(("technique", "learner", "dataset"), pl.String),
    **dict.fromkeys(("train_samples", "aggregated", "seed"), pl.Int64),
    **dict.fromkeys(("reduce_s", "divide_s", "aggregate_s", "total_s", "top1"), pl.Float64),
}


def fig3(scale: str = "default", seed: int = 1, dataset: str = "auto") -> pl.DataFrame:
    """Eight ways to aggregate: seconds on this machine, and accuracy from what they make (Fig. 3).

    A model is trained on the aggregated points alone, one for five originals, on one machine.

    Deviation: below scale ``paper`` LeNet-5 and the data of `fig5` instead of AlexNet and CIFAR-10.

    Returns
    -------
    polars.DataFrame
        A row per technique and seed: ``technique, learner, dataset, train_samples, aggregated,
        seed, reduce_s, divide_s, aggregate_s, total_s, top1``.

    Raises
    ------
    workbench.interrupted.ExperimentInterrupted
        At Ctrl-C, with what was timed; ``top1`` is null where nothing has learnt yet.
    """
    sizes = choose("scale", scale, SCALES)
    model, passes = sizes.fig3
    learner = sizes.learners[model]
    source = learnt_from(scale, learner.model, dataset)
    fitted = data(source, sizes.samples, sizes.test_samples).fitted(ZOO[learner.model].input_shape)
    generation(fitted.x_train[:64], fitted.y_train[:64], TECHNIQUES, [5.0])  # what loads late
    rows, calls = list[dict[str, object]](), []
    with (
        keeping(lambda: pl.DataFrame(rows, schema=_FIG3)),
        progress.steps("Figure 3", 2 * sizes.seeds * len(TECHNIQUES)) as told,
    ):
        for of_seed in range(seed, seed + sizes.seeds):
            for technique in TECHNIQUES:
                told(f"{technique}, seed {of_seed}")
                times = generation(
                    fitted.x_train, fitted.y_train, [technique], [5.0], seed=of_seed
                ).row(0, named=True)
                made = aggregate(fitted.x_train, fitted.y_train, technique, 5.0, of_seed)
                calls.append((learner, fitted, made, passes, of_seed))
                rows.append(
                    {
                        "technique": technique,
                        "learner": learner.model,
                        "dataset": fitted.name,
                        "train_samples": len(fitted.y_train),
                        "aggregated": len(made),
                        "seed": of_seed,
                        **{key: times[key] for key in times if key.endswith("_s")},
                    }
                )
        for at, top1 in parallel.as_finished(_taught, calls, sizes.processes):
            rows[at]["top1"] = top1
            told(f"{learner.model} from {rows[at]['technique']}, seed {rows[at]['seed']}")
    return pl.DataFrame(rows, schema=_FIG3)


def _taught(learner: Learner, given: Dataset, made: Aggregation, passes: int, seed: int) -> float:
    """Top-1 accuracy of a model that learns from aggregated points alone."""
    from workbench import training

    with training.fixed_threads():
        module = training.initialise(learner.model, seed, classes=len(given.classes))
        flat = training.flatten(module, given.input_shape)
        sgd = training.Sgd(learner.learning_rate, momentum=STATED["training"]["momentum"])
        velocity, step = sgd.start(flat.parameters), 0
        x, y = np.asarray(made.points, np.float32), made.labels
        for turn in range(passes):
            stream = np.random.SeedSequence(seed, spawn_key=(SHUFFLE, turn))
            order = np.random.default_rng(stream).permutation(len(y))
            for batch in np.split(order, range(learner.batch_size, len(y), learner.batch_size)):
                training.gradient_step(flat, x[batch], y[batch], seed=step)
                sgd.step(flat.parameters, flat.gradients, velocity)
                step += 1
        return training.evaluate(flat.module, given.x_test, given.y_test).top1


_FIG7 = {
    **dict.fromkeys(("model", "dataset"), pl.String),
    **dict.fromkeys(("points", "features"), pl.Int64),
    "technique": pl.String,
    "ratio": pl.Float64,
    **dict.fromkeys(("repeat", "aggregated"), pl.Int64),
    **dict.fromkeys(("reduce_s", "divide_s", "aggregate_s", "total_s"), pl.Float64),
}


def fig7(scale: str = "default", seed: int = 1, dataset: str = "auto") -> pl.DataFrame:
    """Seconds of the steps of aggregating, on this machine, by technique and ratio (Fig. 7).

    Returns
    -------
    polars.DataFrame
        A row per model (whose input the images are fitted to), technique, ratio and repetition:
        ``model, dataset, points, features, technique, ratio, repeat, aggregated, reduce_s,
        divide_s, aggregate_s, total_s``.

    Raises
    ------
    workbench.interrupted.ExperimentInterrupted
        At Ctrl-C, with the models that were measured.
    """
    sizes = choose("scale", scale, SCALES)
    frames = list[pl.DataFrame]()
    with (
        keeping(lambda: pl.concat([pl.DataFrame(schema=_FIG7), *frames])),
        progress.steps("Figure 7", 2) as told,
    ):
        for model in MODELS[:2]:
            told(model)
            source = learnt_from(scale, model, dataset)
            fitted = data(source, sizes.aggregated, sizes.test_samples).fitted(
                ZOO[model].input_shape
            )
            measured = generation(
                fitted.x_train, fitted.y_train, SELECTED, RATIOS, repeats=sizes.repeats, seed=seed
            )
            about = {
                "model": model,
                "dataset": fitted.name,
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


READINGS = ("whole epoch", "at work", "CPU platforms", "one CPU platform")
"""What Fig. 8's percentage may be taken of; the first answers the paper's numbers."""


def fig8(epochs: int = EPOCHS) -> pl.DataFrame:
    """Time spent on aggregated points, by the cost model, read in four ways (Fig. 8).

    ``whole epoch``: of an epoch's total time, waiting included, on the first deployment, as
    Sec. 4.3 defines the percentage. ``at work``: of the time that goes into ranking and learning
    alone. ``CPU platforms``: the same on these alone. ``one CPU platform``: all points on a single
    one. The technique does not matter here.

    Deviation: Sec. 4.3 names a single executor, of the CPU platform. Alone it keeps all its points,
    so that its share is that of the ratio and no model's, where the paper has two numbers for two
    models and speaks of retained points. So its definition is taken, and the first deployment. The
    choice was made knowing what all four give.

    Returns
    -------
    polars.DataFrame
        A row per model, ratio and reading: ``model, ratio, reading, ranking_s, learning_s,
        waiting_s`` (means of a platform's epoch, after the first) and ``percent``.
    """
    rows = []
    for model in MODELS[:2]:
        for ratio in RATIOS:
            for reading, course in _read(model, ratio, epochs).items():
                later = [one for one in course if one.epoch > 1]
                rows.append(
                    {
                        "model": model,
                        "ratio": ratio,
                        "reading": reading,
                        "ranking_s": fmean(one.select_s for one in later),
                        "learning_s": fmean(one.learn_s for one in later),
                        "waiting_s": fmean(one.wait_s for one in later),
                        "percent": 100 * selecting_share(later, waiting=reading == READINGS[0]),
                    }
                )
    return pl.DataFrame(rows)


def _read(model: str, ratio: float, epochs: int) -> dict[str, list[Epoch]]:
    """Epochs of the platforms that count, by reading."""
    first, alone = (paper_testbed().deployment(model, who) for who in (PLATFORMS, ("cpu",)))
    every, one = (
        each.course(max(2, epochs), each.aggregating(ratio=ratio)) for each in (first, alone)
    )
    cpus = [one for one in every if first.platforms[one.node].name.startswith("cpu")]
    return dict(zip(READINGS, (every, every, cpus, one), strict=True))


_DROPOUTS = {
    **dict.fromkeys(("scenario", "method"), pl.String),
    "platforms": pl.Int64,
    **dict.fromkeys(("dataset", "learner"), pl.String),
    **dict.fromkeys(("train_samples", "seed", "epoch"), pl.Int64),
    **dict.fromkeys(("at_s", "top1", "kept"), pl.Float64),
}


def dropouts(scale: str = "default", seed: int = 1, dataset: str = "auto") -> pl.DataFrame:
    """LeNet-5 on ten platforms of which some fail, with both methods.

    Not in the paper, which cites drop-outs of 6 to 10 % and leaves the handling open: ``one comes
    back`` (10 %: meanwhile its points are left out), ``two leave`` (20 %: the others take their
    points over), ``one slows down``, three times.

    Returns
    -------
    polars.DataFrame
        A row per evaluated epoch: ``scenario, method, platforms, dataset, learner, train_samples,
        seed, epoch, at_s, top1, kept``.

    Raises
    ------
    workbench.interrupted.ExperimentInterrupted
        At Ctrl-C, with the finished trainings.
    """
    sizes = choose("scale", scale, SCALES)
    case, learner = Case(MODELS[0], 10, seed=seed), sizes.learners[MODELS[0]]
    learning = Learning(
        learner.model,
        data(learnt_from(scale, MODELS[0], dataset), sizes.samples, sizes.test_samples),
        5 * learner.epochs // 4,
        learner.batch_size,
        learner.learning_rate,
        sizes.evaluate_every,
    )
    points = len(learning.data.y_train)
    epoch_s = total_s(deployed(case, points).course(learning.epochs)) / learning.epochs
    asked = [
        (scenario, method, faults)
        for scenario, faults in _scenarios(epoch_s).items()
        for method in ("gosgd", "edgegossip")
    ]
    calls = [(case, learning, method, faults, epoch_s) for _, method, faults in asked]
    found: dict[int, pl.DataFrame] = {}
    with (
        keeping(lambda: _in_order(found)),
        progress.steps("Drop-outs", len(asked)) as told,
    ):
        for at, one in parallel.as_finished(_under_faults, calls, sizes.processes):
            scenario, method, _ = asked[at]
            told(f"{scenario}, {method}")
            about = {
                "scenario": scenario,
                "method": method,
                "platforms": case.nodes,
                "dataset": learning.data.name,
                "learner": learner.model,
                "train_samples": points,
                "seed": seed,
            }
            found[at] = pl.DataFrame([about]).join(one, how="cross")
    return _in_order(found)


def _in_order(found: Mapping[int, pl.DataFrame]) -> pl.DataFrame:
    return pl.concat([pl.DataFrame(schema=_DROPOUTS), *(found[at] for at in sorted(found))])


def _under_faults(
    case: Case, learning: Learning, method: str, faults: tuple[Fault, ...], patience_s: float
) -> pl.DataFrame:
    trained = train(case, learning, method, faults=faults, patience_s=patience_s)
    if trained.run.interrupted:
        raise KeyboardInterrupt  # half a training would compare nothing
    return curve(trained, len(learning.data.y_train)).select("epoch", "at_s", "top1", "kept")


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
