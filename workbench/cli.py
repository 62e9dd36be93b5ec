"""The command `workbench`: notebooks, scorecard, figures and profiles from a terminal.

Nothing heavy is imported before a command needs it, so that `workbench --help` answers at once.
"""

from __future__ import annotations

import errno
import inspect
import io
import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

import workbench
from workbench.utils import instruction_set
from workbench.utils.checks import UserError, check_name, check_whole
from workbench.utils.files import check_output, expanded, write_text
from workbench.utils.numbers import bytes_as_text, three_digits
from workbench.zoo.own_model import load_model

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

    from workbench.datasets import Dataset
    from workbench.profiles import LayerTimes, ModelProfile

WRONG_INPUT = 2
"""Exit status when the user gave something that cannot be."""
INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""
HOOKS = ("select", "generate_partial_gradients", "exchange_models")
"""By what an algorithm that is a value is described: the first of these that it has."""


class _Commands(TyperGroup):
    """The commands; refusals and faults of files become one line, other errors stay tracebacks."""

    def invoke(self, ctx: Any) -> Any:
        result = super().invoke(ctx)
        if sys.stdout is not None:  # as where it is closed
            sys.stdout.flush()
        return result

    def main(self, *args: Any, **options: Any) -> Any:
        try:
            return super().main(*args, **options)
        except UserError as error:
            why = str(error)
        except OSError as error:
            if error.filename is None and error.errno != errno.ENOSPC:
                raise
            why = f"{error.filename or 'standard output'}: {error.strerror}"
        typer.echo(f"workbench: {why}", err=True)
        sys.exit(WRONG_INPUT)


app = typer.Typer(
    cls=_Commands,
    help="Train neural networks at the edge, on paper and in simulation: reproduce what five "
    "systems' papers report, and see why.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Folder = partial(typer.Option, metavar="DIR", parser=expanded)
File = partial(typer.Option, metavar="FILE", parser=expanded)
Number = partial(typer.Option, metavar="N")
Name = partial(typer.Option, metavar="NAME")

Notebooks = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NAMES]...", help="Notebooks: 01_dynacomm, dynacomm or 01.  \\[default: all]"
    ),
]
ResultsFolder = Annotated[
    Path | None, Folder("--results", help="Stored results.  \\[default: data/results]")
]
Parameter = partial(typer.Option, "--parameter", "-p")
Assignments = Annotated[
    list[str] | None,
    Parameter(metavar="NAME=VALUE", help="Set a parameter by name; repeatable."),
]
Scale = Annotated[
    str | None,
    typer.Option(metavar="SCALE", help="smoke, default or paper.  \\[default: default]"),
]
Values = Annotated[
    list[str] | None,
    Parameter(
        metavar="NAME=VALUES",
        help="Values of a parameter: 10,100,1000 or 1..5; one fixes it; repeatable.",
    ),
]
Processes = Annotated[int | None, Number(help="Processes in parallel.  \\[default: one per core]")]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Of a Ray cluster to run on: auto or ray://HOST:PORT.  \\[default: this machine]",
    ),
]
Model = Annotated[
    str,
    typer.Argument(
        help="A model of the zoo; or your own as file.py:Name or package.module:Name, a "
        "torch.nn.Module or what makes one when called without arguments."
    ),
]
Inputs = Annotated[
    str | None,
    typer.Option(
        metavar="TYPE[SHAPE]",
        help="What the model takes, for one sample, without the batch: 3,224,224 or int64[128]; "
        "several in their order, or by name: input_ids=int64[128],attention_mask=int64[128].",
    ),
]
BatchSize = Annotated[
    str,
    typer.Option(
        metavar="N", help="Samples in a batch; at most 65536. Several, as 1,8,32, give a table."
    ),
]


def main() -> None:
    """Run the command `workbench`."""
    # As for notebooks (`reproduce.execution`): threads that wait must not take the cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal, pipe or file, of any encoding
            stream.reconfigure(errors="replace")
    app()


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"workbench {workbench.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass


@app.command()
def reproduce(
    names: Notebooks = None,
    *,
    scale: Scale = None,
    trainings: Annotated[
        str | None,
        typer.Option(
            metavar="WHICH",
            help="one of each system, the others shown as recorded; or all.  \\[default: one]",
        ),
    ] = None,
    parameter: Assignments = None,
    output: Annotated[
        Path | None, Folder(help="Where results go.  \\[default: data/results]")
    ] = None,
    jobs: Annotated[
        int | None, Number(help="How many notebooks run at once.  \\[default: 2, or 1 core]")
    ] = None,
    figures: Annotated[Path | None, Folder(help="Also copy all SVG figures here.")] = None,
    notebooks: Annotated[
        Path | None, Folder(help="Where the notebooks are.  \\[default: notebooks]")
    ] = None,
) -> None:
    """Run notebooks and keep what they make: executed copies, figures, tables, a manifest."""
    from workbench.reproduction.reproduce import reproduce as run

    report = run(
        names or (),
        scale=scale,
        given=_assignments(parameter or ()) | ({"trainings": trainings} if trainings else {}),
        notebooks=notebooks,
        output=output,
        figures=figures,
        jobs=jobs,
    )
    raise typer.Exit(report.exit_status)


@app.command()
def sweep(
    notebook: Annotated[
        str,
        typer.Argument(metavar="NOTEBOOK", help="01_dynacomm, dynacomm or 01; or a path of yours."),
    ],
    *,
    parameter: Values = None,
    scale: Scale = None,
    processes: Processes = None,
    address: Address = None,
    force: Annotated[
        bool, typer.Option("--force", help="Run also points that are finished.")
    ] = False,
    output: Annotated[
        Path | None, Folder(help="Where results go.  \\[default: data/sweeps/NOTEBOOK]")
    ] = None,
) -> None:
    """Run a notebook at every point of a grid: what it keeps in one frame, a row for each failure.

    Finished points are not run again; what was interrupted goes on.
    """
    from workbench.reproduction.notebook_sweep import sweep as run

    swept = run(
        notebook,
        _assignments(parameter or ()),
        scale=scale,
        processes=processes,
        address=address,
        output=output,
        force=force,
    )
    raise typer.Exit(swept.exit_status)


@app.command()
def record(
    system: Annotated[str, typer.Argument(help="A system or its notebook: edgegossip, 03, …")],
    experiment: Annotated[
        str | None,
        typer.Argument(help="What to run: fig13, …  \\[default: all that has no recording]"),
    ] = None,
    *,
    scale: Annotated[str, typer.Option(metavar="SCALE", help="smoke, default or paper.")] = "paper",
    seeds: Annotated[
        int | None, Number(help="Trainings of each kind.  \\[default: the scale's]")
    ] = None,
    processes: Processes = None,
    parameter: Assignments = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace another recording, or do again what is finished."),
    ] = False,
    output: Annotated[
        Path | None, Folder(help="Where it goes.  \\[default: data/recorded]")
    ] = None,
) -> None:
    """Run an experiment of hours and keep its rows, for notebooks and scorecard to show.

    What was interrupted goes on.
    """
    from workbench.experiments import ExperimentInterrupted, recordings
    from workbench.experiments.record import check_arguments, unrecorded
    from workbench.experiments.record import record as run

    home, options = output or recordings.FOLDER, _assignments(parameter or ())
    names = unrecorded(system, home) if experiment is None else [experiment]
    if not names:
        typer.echo(f"all experiments of {system} are recorded; name one to record it again")
    if experiment is None:
        check_arguments(system, names, scale, seeds, options)
    try:
        for name in names:
            folder = run(
                system,
                name,
                scale=scale,
                seeds=seeds,
                processes=processes,
                options=options,
                force=force,
                folder=home,
            )
            typer.echo(f"{folder}: {recordings.load(folder.parent.name, name, home)}")
    except ExperimentInterrupted as stopped:
        rows = _counted(len(stopped.frame), "row")
        typer.echo(f"stopped with {rows} finished; the same command goes on", err=True)
        raise typer.Exit(INTERRUPTED) from None


@app.command()
def scorecard(
    *,
    system: Annotated[str | None, Name(help="Of one system only: dynacomm, 01, …")] = None,
    claim: Annotated[
        str | None,
        typer.Option(
            metavar="CLAIM", help="A claim, a beginning or a pattern (dlion.*.ako), with evidence."
        ),
    ] = None,
    format: Annotated[
        str, typer.Option(metavar="FORMAT", help="table, json or markdown.")
    ] = "table",
    picture: Annotated[Path | None, File(help="Also draw it, as SVG, into this file.")] = None,
    results: ResultsFolder = None,
) -> None:
    """Print each claim of the papers beside what the stored results say; nothing is run."""
    from workbench import scorecard as judged
    from workbench.store.folder import writable

    if picture is not None:
        writable(picture.parent)
        check_output("--picture", picture)
    if claim is not None:
        typer.echo(judged.one_claim(claim, _stored(results)))
        return
    card = judged.of_results(_stored(results), system)
    text = judged.render(card, format)
    if picture is not None:
        judged.write(card, picture)
    typer.echo(text, nl=False)


@app.command()
def figures(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAMES]...",
            help="Notebooks or single figures: dynacomm, 01, dynacomm_fig5.  \\[default: all]",
        ),
    ] = None,
    *,
    format: Annotated[str, typer.Option(metavar="FORMAT", help="svg, pdf or png.")] = "svg",
    column: Annotated[
        str, typer.Option(metavar="COLUMN", help="single (3.5 in) or double (7.16 in).")
    ] = "double",
    output: Annotated[Path | None, Folder(help="Where they go.  \\[default: figures]")] = None,
    results: ResultsFolder = None,
) -> None:
    """Export stored figures in the size and format of a paper; nothing is run.

    Beside PDF and PNG, figures.tex shows them in LaTeX, with captions and the claims they answer.
    """
    from workbench.reproduction.notebooks import find, notebooks_folder
    from workbench.results import export_figures, stored, stored_figures
    from workbench.scorecard import latex
    from workbench.systems import TITLES
    from workbench.utils import files

    folder = _stored(results)
    if not stored(folder):  # a wrong name is told before that
        of_figures = tuple(f"{system}_" for system in TITLES)
        find(notebooks_folder(None), [one for one in names or () if not one.startswith(of_figures)])
    home = output or files.home() / "figures"
    chosen = stored_figures(folder, names or ())
    written, failed = export_figures(chosen, home, format=format, column=column)
    for path in written.values():
        typer.echo(str(path))
    if written and format in latex.FORMATS:
        typer.echo(str(latex.write(written, home, folder, column, format)))
    if failed:
        drawn = f"{len(written)} of {_counted(len(chosen), 'figure')} written"
        raise UserError("\n".join([f"{drawn}, but not:", *failed]))


@app.command()
def share(
    notebook: Annotated[
        str | None,
        typer.Argument(metavar="NOTEBOOK", help="Whose explorer: 01_dynacomm, dynacomm or 01."),
    ] = None,
    *,
    every: Annotated[
        bool, typer.Option("--all", help="Those of all notebooks, into a folder: -o DIR.")
    ] = False,
    output: Annotated[Path | None, File("-o", "--output", help="Where the page goes.")] = None,
    parameter: Values = None,
    processes: Processes = None,
) -> None:
    """Write a notebook's explorer as a page of sliders that needs neither kernel nor network."""
    from workbench import share as sharing
    from workbench.store.folder import writable

    if (notebook is None) is not every:
        raise UserError("name one notebook, or take --all")
    if every and parameter:
        raise UserError("-p is for one notebook's page, not for --all")
    if output is None:
        raise UserError("say where the page goes: -o NAME.html, or -o DIR with --all")
    if every and output.suffix == ".html":
        raise UserError(f"-o {output}: --all writes several pages; give a folder")
    if every:
        writable(output)
    else:
        check_output("-o", output)
    from rich.console import Console

    pages = {name: output / f"{name}.html" for name in sharing.EXPLORERS}
    given = _assignments(parameter or ())
    for name, path in pages.items() if every else [(str(notebook), output)]:
        with Console(stderr=True).status(f"{name}: drawing") as status:

            def progress(done: int, total: int, name: str = name, status: Status = status) -> None:
                status.update(f"{name}: chart {done:,} of {total:,}")

            sharing.share(name, path, given, processes, progress)
        typer.echo(str(path))


@app.command()
def models() -> None:
    """List the models of the zoo."""
    from workbench.zoo import MODELS

    table = _table("model", "parameters", "input")
    for model in MODELS.values():
        taken, dtype = _shape(model.input_shape), model.input_dtype
        taken = taken if dtype == "float32" else f"{dtype}[{taken}]"
        table.add_row(model.name, f"{model.parameters:,}", taken)
    _print(table)


@app.command()
def planners(
    system: Annotated[
        str | None, typer.Argument(help="Of one system only: dynacomm, 01, …  \\[default: all]")
    ] = None,
) -> None:
    """List what each system plans or exchanges with: planners, strategies, systems."""
    from workbench import results
    from workbench.systems import ALGORITHMS

    chosen = list(ALGORITHMS)
    if system is not None:
        chosen = [check_name("system", results.system_named(system), chosen)]
    for system_name in chosen:
        for kind, registry in ALGORITHMS[system_name].items():
            typer.echo(f"{system_name}: {kind}")
            width = max(map(len, registry))
            for name, algorithm in registry.items():
                typer.echo(f"  {name:<{width}}  {_summary(algorithm)}")


def _summary(algorithm: Any) -> str:
    """Return the first line of a function's docstring; for a sequence of functions, their names."""
    if isinstance(algorithm, tuple):
        return ", then ".join(one.__name__ for one in algorithm if callable(one))
    hooks = (getattr(algorithm, name, None) for name in HOOKS)
    function = algorithm if callable(algorithm) else next(filter(None, hooks))
    return (inspect.getdoc(function) or "").partition("\n")[0]


@app.command()
def profile(
    model: Model,
    *,
    inputs: Inputs = None,
    batch_size: BatchSize = "1",
    by: Annotated[
        str,
        typer.Option(
            metavar="WAY", help="How layers are found: in the graph, or by modules in their order."
        ),
    ] = "graph",
    measure: Annotated[
        bool,
        typer.Option(
            "--measure",
            help="Also measure seconds per layer on this machine, with its own instruction set.",
        ),
    ] = False,
    device: Annotated[
        str, typer.Option(metavar="DEVICE", help="Where to measure: cpu or cuda.")
    ] = "cpu",
    save: Annotated[Path | None, File(help="Also write the profile here (parquet).")] = None,
) -> None:
    """Print what each layer of a model costs."""
    check_output("--save", save)
    if save is not None and save.suffix != ".parquet":
        raise UserError(f"--save {save}: give a file that ends in .parquet")
    sizes = _batch_sizes(batch_size)
    if save is not None and measure and len(sizes) > 1:
        raise UserError(f"--save {save}: it takes the times of one batch size")
    module, taken = _model(model, inputs)

    from workbench import profiles
    from workbench.profiles import measured

    check_name("way", by, ("graph", "modules"))
    measured.check_device(device)
    with _traced("profile it module by module, which runs it: --by modules"):
        costs = profiles.profile_model(module, taken, by=by)  # type: ignore[arg-type]
    times = {size: _measured(model, inputs, size, device, by) for size in sizes if measure}
    if len(sizes) > 1:
        _print(_batches_table(costs, sizes, times))
    else:
        _print(_profile_table(costs, sizes[0], times.get(sizes[0])))
    if save is not None:
        times.get(sizes[0], costs).save(save)


@app.command()
def measure(
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Say what this machine, or a Ray cluster, carries.")
    ] = False,
    nodes: Annotated[int, Number(help="Processes that try their links.")] = 3,
    address: Address = None,
) -> None:
    """Check what measured runs can do here: links, clock, cores, versions."""
    from workbench.runtime.measured.check import check as run

    if not check:
        raise UserError("give --check; programs are measured from Python, by runtime.measured")
    run(typer.echo, nodes=check_whole("nodes", nodes, 2), address=address)


@app.command()
def memory(
    model: Model,
    *,
    inputs: Inputs = None,
    batch_size: BatchSize = "1",
    training: Annotated[
        bool, typer.Option("--training", help="A step of SGD in the place of inference.")
    ] = False,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Also plan within this memory: 64MB, 64 MiB, or 50% of what plain "
            "execution takes, by computing again what does not fit.",
        ),
    ] = None,
    optimizer: Annotated[str, Name(help="sgd, momentum, adam or adamw: its state counts.")] = "sgd",
    planner: Annotated[
        str | None,
        Name(help="Only this planner; workbench planners lists them.  \\[default: all]"),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="That a planner which searches may take. The plan then depends on the machine. "
            " \\[default: a fixed number of rounds]",
        ),
    ] = None,
) -> None:
    """Print what memory a model needs, its results by each planner, and what less would cost."""
    from workbench.memory import report
    from workbench.zoo import MODELS

    if time_limit is not None and not 0 < time_limit < math.inf:
        raise UserError(f"--time-limit {time_limit:g}: give seconds above 0")
    if optimizer in ("momentum", "adam", "adamw") and not training:
        raise UserError(f"--optimizer {optimizer}: only training has its state; add --training")
    sizes = _batch_sizes(batch_size)
    module, taken = _model(model, inputs)
    what = "a step of training" if training else "inference"
    survey = partial(
        report.survey,
        module,
        taken,
        training=training,
        planner=planner,
        budget=budget,
        optimizer=optimizer,
        time_limit_s=time_limit,
    )
    with _traced("its memory cannot be planned before its operators are known"):
        if len(sizes) > 1:
            _print(report.by_batch(survey, sizes, f"{model}: {what}", budget))
            return
        found = survey(batch_size=sizes[0])
    shapes = [one.shape for one in taken] if taken else [MODELS[model].input_shape]
    batch, operators = _batch(sizes[0], shapes), _counted(len(found.flow.steps), "operator")
    _print(report.table(found, f"{model}: {what}, {batch}, {operators}"))
    print(report.total(found))
    if found.refusal:
        raise UserError(found.refusal)


@app.command()
def compare(
    model: Model,
    *,
    cluster: Annotated[Path, File(help="Nodes, links and rules, in TOML.")],
    inputs: Inputs = None,
    batch_size: BatchSize = "32",
    times: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NODE=FILE",
            help="Layer times that `workbench profile --measure --save FILE` has measured on a "
            "node, in place of its gflops; once for each node or group.",
        ),
    ] = None,
    epochs: Annotated[
        int, Number(help="Length of the training: rates are means over it, and --train takes it.")
    ] = 10,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Also run each way's programs, without learning.")
    ] = False,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure",
            help="Also run the best ways as real processes on this machine, without learning.",
        ),
    ] = False,
    measure_at_most: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Measure no way that takes longer.  \\[default: 60]",
        ),
    ] = None,
    train: Annotated[
        bool,
        typer.Option(
            "--train",
            help="Train in every way, with true learning in virtual time, and rank by the time to "
            "a test loss.",
        ),
    ] = False,
    way: Annotated[
        list[str] | None,
        Name(
            help="Train only in this way, or measure it; repeatable.  \\[default: train in all, "
            "measure the best]"
        ),
    ] = None,
    data: Annotated[
        str | None,
        Name(
            help="Data set to train on: a name, or a path.  \\[default: markov for texts, else "
            "digits]"
        ),
    ] = None,
    samples: Annotated[
        int | None,
        Number(
            help="Training samples, drawn at random, and a quarter as many to test on."
            "  \\[default: 2000]"
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Virtual seconds that every way trains for."
            "  \\[default: the slowest's for its epochs, capped]",
        ),
    ] = None,
    seeds: Annotated[int | None, Number(help="Trainings of each way.  \\[default: 3]")] = None,
    learning_rate: Annotated[
        list[float] | None,
        typer.Option(
            metavar="RATE",
            help="For a batch of one worker; of several, each way counts with its best."
            "  \\[default: 0.1]",
        ),
    ] = None,
    until_loss: Annotated[
        float | None,
        typer.Option(
            metavar="LOSS",
            help="Test loss to rank by.  \\[default: 90 % of what the best SGD improves]",
        ),
    ] = None,
    csv: Annotated[
        Path | None, File(help="Also write all columns here; with --train, all evaluations.")
    ] = None,
) -> None:
    """Compare all ways of training a model on a cluster, and say which is the fastest, and why."""
    from workbench.clusters import load_cluster
    from workbench.comparison import WAYS, answer, learning, text
    from workbench.comparison import measured as measuring

    check_output("--csv", csv)
    machines = load_cluster(cluster)
    sizes = _batch_sizes(batch_size)
    module, taken = _model(model, inputs)
    shown = {"--train": train, "--measure": measure, "--simulate": simulate, "--csv": csv}
    _refuse(shown if len(sizes) > 1 else {}, "takes one batch size")
    for name in way or ():
        check_name("way", name, WAYS)
    measured = text.parse_times(times or (), machines)
    of_training: dict[str, Any] = {"--data": data, "--samples": samples, "--seeds": seeds}
    of_training |= {"--seconds": seconds}
    of_training |= {"--learning-rate": learning_rate, "--until-loss": until_loss}
    of_measuring, of_both = {"--measure-at-most": measure_at_most}, {"--way": way}
    _refuse({} if train else of_training, "counts with --train alone; add --train")
    _refuse({} if measure else of_measuring, "counts with --measure alone; add --measure")
    _refuse({} if train or measure else of_both, "counts with --train or --measure alone")
    dataset = None
    if train:
        data, dataset = _to_train_on(data, module, taken, 2000 if samples is None else samples)
    with _traced("profile it module by module: workbench profile --by modules"):
        answers = {
            size: answer(
                module,
                machines,
                size,
                input_shape=taken,
                times=measured,
                epochs=epochs,
                simulate=simulate,
                measure=measure and (way or True),
                measure_at_most_s=(
                    measuring.AT_MOST_S if measure_at_most is None else measure_at_most
                ),
                say=partial(typer.echo, err=True),
            )
            for size in sizes
        }
    if len(sizes) > 1:
        _print(text.by_batch(answers, f"{model}: {len(machines)} nodes, {epochs} epochs"))
        return
    found = answers[sizes[0]]
    about = f"{model}: {len(machines)} nodes, a batch of {sizes[0]} a worker, {epochs} epochs"
    for each in text.tables(found.frame, about, _console().width):
        _print(each)
    interrupted = False
    if measure:
        for each in text.measured(found.frame):
            _print(each)
        interrupted = measuring.INTERRUPTED in found.frame["measured_note"]
    _print(str(found))
    trained = None
    if dataset is not None:
        trained = learning.train_ways(
            module,
            machines,
            dataset,
            sizes[0],
            epochs=epochs,
            seconds=seconds,
            seeds=3 if seeds is None else seeds,
            learning_rates=learning_rate or learning.LEARNING_RATES,
            until_loss=until_loss,
            ways=way,
            times=measured,
        )
        about = (
            f"{model} on {len(dataset.y_train):,} samples of {data}: true learning, every way for "
            f"{trained.seconds:.3g} virtual seconds"
        )
        for each in learning.tables(trained, about):
            _print(each)
        _print(str(trained))
    if csv is not None:
        frame = found.frame if trained is None else trained.evaluations
        write_text(csv, frame.write_csv())
    if interrupted or (trained is not None and trained.interrupted):
        raise typer.Exit(INTERRUPTED)


def _to_train_on(data: str | None, model: Any, taken: Any, samples: int) -> tuple[str, Dataset]:
    """The name of a data set, and as many of its samples; by default one that the model takes."""
    from workbench import datasets
    from workbench.graphs.inputs import inputs_of
    from workbench.training.models import check_model
    from workbench.training.objective import objective_of

    given, *others = inputs_of(model, taken)
    is_text = not others and given.dtype == "int64" and len(given.shape) == 1
    data = data or ("markov" if is_text else "digits")
    as_long = data == "markov" and is_text
    dataset = datasets.markov.load(length=given.shape[0]) if as_long else datasets.load(data)
    dataset = dataset.limit(samples, max(1, samples // 4))
    shapes = [one.shape for one in taken or dataset.inputs]
    if not others and len(given.shape) == 3:
        dataset = dataset.fitted(given.shape)
    elif shapes != [one.shape for one in dataset.inputs]:
        raise UserError(
            f"{data} has {', '.join(map(str, dataset.inputs))} a sample, and --inputs is "
            f"{', '.join(map(str, taken))}; give both alike"
        )
    check_model(model, dataset, 0, objective_of(None, dataset))
    return data, dataset


def _refuse(options: dict[str, Any], why: str) -> None:
    """Refuse the first of these options that is set."""
    for option, value in options.items():
        if not (value is None or value is False or value == []):
            raise UserError(f"{option} {why}")


@contextmanager
def _traced(otherwise: str) -> Iterator[None]:
    """Say what follows for a command where a model's operators depend on its data."""
    from workbench.graphs.graph import UntraceableError

    try:
        yield
    except UntraceableError as error:
        raise UserError(f"{error.reason}; {otherwise}") from None


def _model(name: str, inputs: str | None) -> tuple[Any, Any]:
    """Return the name of a model of the zoo or the user's own module, and what it takes.

    That is None where the zoo knows it.
    """
    from workbench.zoo import MODELS

    is_own = ":" in name or name.endswith(".py")
    model = load_model(name) if is_own else name
    if inputs is None:
        if is_own:
            raise UserError(
                f"{name}: give what it takes, as in --inputs 3,224,224 or --inputs 'int64[128]'"
            )
        return model, None
    from workbench.graphs.inputs import read_inputs

    known = MODELS.get(name)
    return model, read_inputs("--inputs", inputs, known.input_dtype if known else "float32")


def _batch_sizes(text: str) -> tuple[int, ...]:
    from workbench.parameters import PARAMETERS

    sizes = (int(PARAMETERS["batch_size"].parse(size)) for size in text.split(","))
    return tuple(dict.fromkeys(sizes))


def _measured(*asked: Any) -> LayerTimes:
    """Measure seconds per layer in a process with the machine's own instruction set."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from workbench.cli import _measured_here  # not of __main__, which that process may not know

    with instruction_set.native(), ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(_measured_here, *asked).result()


def _measured_here(
    model: str, inputs: str | None, batch_size: int, device: str, by: Any
) -> LayerTimes:
    """Measure seconds per layer; progress goes to standard error."""
    from rich.console import Console

    from workbench import profiles

    module, shape = _model(model, inputs)
    with Console(stderr=True).status("measuring") as status:
        return profiles.measure_layer_times(
            module,
            batch_size,
            shape,
            device=device,
            by=by,
            progress=lambda what, done, total: status.update(f"{what}, {done + 1} of {total}"),
        )


def _console() -> Console:
    from rich.console import Console

    # file.py:Name is no emoji, layer[0] no style, and no number a highlight
    console = Console(emoji=False, markup=False, highlight=False)
    if not console.is_terminal:
        console.width = 160  # a file or pipe takes whole rows
    return console


def _print(what: Any) -> None:
    """Print a table, or a sentence, which wraps in a terminal alone."""
    console = _console()
    console.print(what, soft_wrap=isinstance(what, str) and not console.is_terminal)


def _profile_table(profile: ModelProfile, batch_size: int, times: LayerTimes | None) -> Any:
    columns = ["layer", "tensors", "parameters\nMB", "output\nMB", "forward\nGFLOP"]
    columns += ["backward\nGFLOP"]
    rows: list[list[float]] = [
        [
            row["param_tensors"],
            row["param_bytes"] / 1e6,
            row["output_bytes"] * batch_size / 1e6,
            row["forward_flops"] * batch_size / 1e9,
            row["backward_flops"] * batch_size / 1e9,
        ]
        for row in profile.table.iter_rows(named=True)
    ]
    caption = "1 MB = 10⁶ bytes; a multiply-add is 2 FLOP"
    if any(profile.frozen_bytes):
        frozen = bytes_as_text(sum(profile.frozen_bytes))
        caption += f"\na further {frozen} of parameters are frozen, and never sent"
    if times is not None:
        columns += ["forward\nms", "backward\nms", "update\nms"]
        seconds = times.table.select("forward_s", "backward_s", "update_s").iter_rows()
        for row, layer_s in zip(rows, seconds, strict=True):
            row += [one_s * 1e3 for one_s in layer_s]
        caption += _measured_on(times.device)
        if times.iteration_s is not None and times.layers_over_iteration is not None:
            caption += (
                f"\nforward and backward measured in one piece: {times.iteration_s * 1e3:,.1f} ms; "
                f"the layers' sum is {times.layers_over_iteration:.0%} of it"
            )

    table = _table(*columns)
    layers, batch = _counted(len(profile), "layer"), _batch(batch_size, profile.input_shape)
    table.title = f"{profile.name}: {layers}, {batch}"
    table.caption = caption
    table.show_footer = True
    for name, row in zip(profile.layers, rows, strict=True):
        table.add_row(name, *_cells(row))
    totals = [sum(column) for column in zip(*rows, strict=True)]
    for column, text in zip(table.columns, ["total", *_cells(totals)], strict=True):
        column.footer = text
    return table


def _batches_table(
    profile: ModelProfile, sizes: Sequence[int], times: dict[int, LayerTimes]
) -> Any:
    columns = ["samples", "outputs\nMB", "forward\nGFLOP", "backward\nGFLOP"]
    if times:
        columns += ["forward\nms", "backward\nms", "update\nms", "samples\n/s"]
    table = _table(*columns)
    inputs = _shape(profile.input_shape)
    table.title = f"{profile.name}: {_counted(len(profile), 'layer')}, samples of {inputs}"
    table.caption = (
        f"{bytes_as_text(profile.param_bytes)} of parameters; 1 MB = 10⁶ bytes; "
        "a multiply-add is 2 FLOP"
    )
    made = int(profile.table["output_bytes"].sum()) / 1e6
    for size in sizes:
        flops = (profile.forward_flops, profile.backward_flops)
        row = [size, size * made, *(size * each / 1e9 for each in flops)]
        if size in times:
            measured = times[size].table.select("forward_s", "backward_s", "update_s")
            seconds = [float(column.sum()) for column in measured]
            row += [*(1e3 * each_s for each_s in seconds), size / sum(seconds)]
        table.add_row(*_cells(row))
    if times:
        table.caption += _measured_on(times[sizes[0]].device)
    return table


def _measured_on(device: str) -> str:
    with instruction_set.native():
        kernels = instruction_set.record(new_process=True)["torch"]
    return f"; medians on this machine's {device}, kernels: {kernels}"


def _cells(row: Sequence[float]) -> list[str]:
    return [f"{row[0]:,}", *map(three_digits, row[1:])]


def _table(first: str, *numbers: str) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title_justify="left", caption_justify="left")
    table.add_column(first, overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _shape(shape: Sequence[int] | Sequence[Sequence[int]]) -> str:
    """Return a readable shape: ``3×224×224``; several joined by ``and``."""
    several = [one for one in shape if isinstance(one, Sequence)]
    return " and ".join(map(_shape, several)) or "×".join(map(str, shape))


def _batch(size: int, shape: Any) -> str:
    return f"{f'a batch of {size}' if size > 1 else 'one sample'} of {_shape(shape)}"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _stored(folder: Path | None) -> Path:
    from workbench.results import default_folder

    if folder is not None and not folder.is_dir():
        raise UserError(f"--results {folder}: there is no such folder")
    return folder or default_folder()


def _assignments(texts: Sequence[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not (equals and name and text.isprintable()):
            raise UserError(f"-p {text!r}: write it as name=value, as in -p batch_size=16")
        if name in values:
            raise UserError(f"parameter {name!r} is given twice: {values[name]} and {value}")
        values[name] = value
    return values


if __name__ == "__main__":
    main()
