"""The command `workbench`: notebooks, scorecard, figures and profiles from a terminal.

Nothing heavy is imported before a command needs it, so that `workbench --help` answers at once.
"""

from __future__ import annotations

import errno
import inspect
import io
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
from workbench.utils.numbers import batch_as_text, counted, shape_as_text
from workbench.utils.terminal import console, show, table
from workbench.zoo.own_model import named_model

if TYPE_CHECKING:
    from rich.status import Status

    from workbench.profiles import LayerTimes

WRONG_INPUT = 2
"""Exit status when the user gave something that cannot be."""
INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""
HOOKS = ("select", "generate_partial_gradients")
"""Methods whose docstring describes an algorithm object; the first that it has counts."""


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
    help="Compare methods of training a neural network across phones, edge servers and clouds, "
    "and reproduce five papers on it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Folder = partial(typer.Option, metavar="DIR", parser=expanded)
File = partial(typer.Option, metavar="FILE", parser=expanded)
Number = partial(typer.Option, metavar="N")
Name = partial(typer.Option, metavar="NAME")

Notebook = Annotated[str, typer.Argument(help="01_dynacomm, dynacomm or 01; or a path of yours.")]
Notebooks = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NAMES]...", help="01_dynacomm, dynacomm or 01.  \\[default: all]"),
]
System = Annotated[str | None, Name(help="Of one system only: dynacomm, 01, …")]
Results = Annotated[
    Path | None, Folder("--results", help="Stored results.  \\[default: data/results]")
]
Parameters = Annotated[
    list[str] | None,
    typer.Option(
        *("--parameter", "-p"),
        metavar="NAME=VALUE",
        help="Set a parameter; repeatable. Several values, as 10,100 or 1..5, for sweep and share.",
    ),
]
Scale = Annotated[str | None, Name(help="smoke, default or paper.")]
Force = Annotated[bool, typer.Option("--force", help="Also do again what is finished.")]
Processes = Annotated[int | None, Number(help="Processes in parallel.  \\[default: one per core]")]
Address = Annotated[str | None, Name(help="A Ray cluster to run on: auto or ray://HOST:PORT.")]
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
BatchSize = Annotated[str, Number(help="Samples in a batch. Several, as 1,8,32, give a table.")]


def main() -> None:
    """Run the command `workbench`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal, pipe or file, of any encoding
            stream.reconfigure(errors="replace")
    app()


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"workbench {workbench.__version__}")
        raise typer.Exit


VersionOption = typer.Option(
    "--version", callback=_version, is_eager=True, help="Print the version."
)


@app.callback()
def _options(version: Annotated[bool, VersionOption] = False) -> None:
    pass


@app.command()
def compare(
    model: Model,
    *,
    cluster: Annotated[Path, File(help="Nodes, links and rules, in TOML.")],
    inputs: Inputs = None,
    batch_size: BatchSize = "32",
    times: Annotated[
        list[str] | None,
        typer.Option(metavar="NODE=FILE", help="Measured layer times of a node; repeatable."),
    ] = None,
    epochs: Annotated[int, Number(help="Length of the training that rates are means over.")] = 10,
    accumulate: Annotated[int, Number(help="Batches a step, whose gradients are added up.")] = 1,
    cache_frozen: Annotated[
        bool,
        typer.Option("--cache-frozen", help="Keep activations behind frozen first layers."),
    ] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Show all methods, not the best of each kind alone.")
    ] = False,
    explain: Annotated[
        list[str] | None, Name(help="Only say of a method what it assumes; repeatable.")
    ] = None,
    measure: Annotated[
        bool,
        typer.Option("--measure", help="Also run the best as real processes, without learning."),
    ] = False,
    train: Annotated[
        bool,
        typer.Option("--train", help="Train in virtual time; rank by the time to a test loss."),
    ] = False,
    method: Annotated[
        list[str] | None, Name(help="Measure or train only this; repeatable.")
    ] = None,
    data: Annotated[
        str | None,
        Name(help="To train on, a name or a path.  \\[default: markov for texts, else digits]"),
    ] = None,
    samples: Annotated[
        int | None, Number(help="To train on; a quarter to test on.  \\[default: 2000]")
    ] = None,
    seeds: Annotated[int | None, Number(help="Trainings of each method.  \\[default: 3]")] = None,
    csv: Annotated[
        Path | None, File(help="Also write all columns here; with --train, all evaluations.")
    ] = None,
) -> None:
    """Compare all methods of training a model on a cluster: which is the fastest, and why."""
    from workbench.clusters import load_cluster
    from workbench.comparison import METHODS, learning, measured, text
    from workbench.comparison import compare as compare_ways

    check_output("--csv", csv)
    sizes = _batch_sizes(batch_size)
    one_size = {"--train": train, "--measure": measure, "--explain": explain, "--csv": csv}
    of_training = {"--data": data, "--samples": samples, "--seeds": seeds is not None}
    _refuse(len(sizes) > 1, one_size, "takes one batch size")
    _refuse(not train, of_training, "counts with --train alone; add --train")
    _refuse(not (train or measure), {"--method": method}, "counts with --train or --measure alone")
    _refuse(train, {"--cache-frozen": cache_frozen}, "does not count with --train; leave one out")
    if seeds is not None:
        check_whole("--seeds", seeds, 1)
    for name in (*(method or ()), *(explain or ())):
        check_name("method", name, METHODS)
    machines = load_cluster(cluster)
    layer_times = text.parse_times(times or (), machines)
    module, taken = named_model(model, inputs)
    if train:
        samples = 2000 if samples is None else samples
        data, dataset = learning.data_for(module, taken, data, samples)
    with _traced("profile it module by module: workbench profile --by modules"):
        answers = {
            size: compare_ways(
                module,
                machines,
                size,
                input_shape=taken,
                times=layer_times,
                epochs=epochs,
                accumulate=accumulate,
                cache_frozen=cache_frozen,
            )
            for size in sizes
        }
    nodes = counted(len(machines), "node")
    if len(sizes) > 1:
        show(text.by_batch(answers, f"{model}: {nodes}, {counted(epochs, 'epoch')}"))
        return
    found = answers[sizes[0]]
    frame, interrupted = found.frame, False
    batch = f"a batch of {sizes[0]}" if accumulate == 1 else f"{accumulate} batches of {sizes[0]}"
    about = f"{model}: {nodes}, {batch} a worker, {counted(epochs, 'epoch')}"
    for each in text.shown(found, about, console().width, every=every, explain=explain or ()):
        show(each)
    if measure:
        rates = found.measure(method or (), say=partial(typer.echo, err=True))
        for each in text.measured(rates):
            show(each)
        interrupted = measured.INTERRUPTED in rates["reason"]
    if train:
        trained = learning.train_methods(
            module,
            machines,
            dataset,
            sizes[0],
            epochs=epochs,
            seeds=3 if seeds is None else seeds,
            methods=method,
            times=layer_times,
            accumulate=accumulate,
        )
        about = (
            f"{model} on {len(dataset.y_train):,} samples of {data}: true learning, "
            f"each method for {trained.seconds:.3g} virtual seconds"
        )
        for each in learning.tables(trained, about):
            show(each)
        show(str(trained))
        frame, interrupted = trained.evaluations, interrupted or trained.interrupted
    if csv is not None:
        write_text(csv, frame.write_csv())
    if interrupted:
        raise typer.Exit(INTERRUPTED)


@app.command()
def profile(
    model: Model,
    *,
    inputs: Inputs = None,
    batch_size: BatchSize = "1",
    by: Annotated[
        str, Name(help="How layers are found: in the graph, or by modules in their order.")
    ] = "graph",
    measure: Annotated[
        bool, typer.Option("--measure", help="Also measure seconds per layer on this machine.")
    ] = False,
    device: Annotated[str, Name(help="Where to measure: cpu or cuda.")] = "cpu",
    save: Annotated[Path | None, File(help="Also write the profile here (parquet).")] = None,
) -> None:
    """Print what each layer of a model costs."""
    check_output("--save", save)
    if save is not None and save.suffix != ".parquet":
        raise UserError(f"--save {save}: give a file that ends in .parquet")
    sizes = _batch_sizes(batch_size)
    if save is not None and measure and len(sizes) > 1:
        raise UserError(f"--save {save}: it takes the times of one batch size")
    module, taken = named_model(model, inputs)

    from rich.console import Console

    from workbench import profiles
    from workbench.profiles import measured, tables

    check_name("way", by, ("graph", "modules"))
    measured.check_device(device)
    with _traced("profile it module by module, which runs it: --by modules"):
        costs = profiles.profile_model(module, taken, by=by)  # type: ignore[arg-type]
    times: dict[int, LayerTimes] = {}
    for size in sizes if measure else ():
        with Console(stderr=True).status("measuring") as status:
            times[size] = profiles.measure_layer_times(
                module,
                size,
                taken,
                device=device,
                by=by,  # type: ignore[arg-type]
                progress=lambda what, done, total: status.update(f"{what}, {done + 1} of {total}"),
            )
    if len(sizes) > 1:
        show(tables.by_batch_size(costs, sizes, times))
    else:
        show(tables.by_layer(costs, sizes[0], times.get(sizes[0])))
    if save is not None:
        times.get(sizes[0], costs).save(save)


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
        typer.Option(metavar="SIZE", help="Also plan within 64MB, 64 MiB, or 50% of plain memory."),
    ] = None,
    optimizer: Annotated[str, Name(help="sgd, momentum, adam or adamw: its state counts.")] = "sgd",
    planner: Annotated[
        str | None, Name(help="Only this, of workbench planners olpb.  \\[default: all]")
    ] = None,
) -> None:
    """Print what memory a model needs, its results by each planner, and what less would cost."""
    from workbench.memory import report
    from workbench.zoo import MODELS

    if optimizer in ("momentum", "adam", "adamw") and not training:
        raise UserError(f"--optimizer {optimizer}: only training has its state; add --training")
    sizes = _batch_sizes(batch_size)
    module, taken = named_model(model, inputs)
    what = "a step of training" if training else "inference"
    survey = partial(
        report.survey,
        module,
        taken,
        training=training,
        planner=planner,
        budget=budget,
        optimizer=optimizer,
    )
    with _traced("its memory cannot be planned before its operators are known"):
        if len(sizes) > 1:
            show(report.by_batch(survey, sizes, f"{model}: {what}", budget))
            return
        found = survey(batch_size=sizes[0])
    shapes = [item.shape for item in taken] if taken else [MODELS[model].input_shape]
    batch, operators = batch_as_text(sizes[0], shapes), counted(len(found.flow.steps), "operator")
    show(report.table(found, f"{model}: {what}, {batch}, {operators}"))
    print(report.total(found))
    if found.refusal:
        raise UserError(found.refusal)


@app.command()
def models() -> None:
    """List the models of the zoo."""
    from workbench.zoo import MODELS

    rows = table(texts=["model"], numbers=["parameters", "input"])
    for model in MODELS.values():
        taken, dtype = shape_as_text(model.input_shape), model.input_dtype
        taken = taken if dtype == "float32" else f"{dtype}[{taken}]"
        rows.add_row(model.name, f"{model.parameters:,}", taken)
    show(rows)


@app.command()
def planners(
    system: Annotated[
        str | None, typer.Argument(help="Of one system only: dynacomm, 01, …  \\[default: all]")
    ] = None,
) -> None:
    """List what each system plans or exchanges with: planners, strategies, systems."""
    from workbench.reproduction import results
    from workbench.reproduction.systems import ALGORITHMS

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
        return ", then ".join(part.__name__ for part in algorithm if callable(part))
    hooks = (getattr(algorithm, name, None) for name in HOOKS)
    function = algorithm if callable(algorithm) else next(filter(None, hooks))
    return (inspect.getdoc(function) or "").partition("\n")[0]


@app.command()
def measure(
    *,
    nodes: Annotated[int, Number(help="Processes that try their links.")] = 3,
    address: Address = None,
) -> None:
    """Check what measured runs can do on this machine or a Ray cluster: links, clock, versions."""
    from workbench.runtime.measured.check import check

    check(typer.echo, nodes=check_whole("nodes", nodes, 2), address=address)


@app.command()
def validate(
    corpus: Annotated[
        str, typer.Argument(help="adaptdl, flash, gavel, hivemind, sailor or vtrain.")
    ],
    *,
    data: Annotated[
        Path | None, Folder(help="Where its table is.  \\[default: $WORKBENCH_DATA/measured]")
    ] = None,
    fit: Annotated[
        bool, typer.Option("--fit", help="Fit constants on a tenth of this table, not the frozen.")
    ] = False,
    csv: Annotated[Path | None, File(help="Also write all predictions here.")] = None,
) -> None:
    """Predict times that others measured, and say how far off that is."""
    from workbench.comparison.validation import against
    from workbench.comparison.validation.corpora import CORPORA

    check_output("--csv", csv)
    frame = against.validate(corpus, data, fit=fit)
    errors = against.errors(frame, CORPORA[corpus].kind)
    percent = ["mean", "median", "worst", "computing alone", "nearest row", "order", "within"]
    title = f"{CORPORA[corpus].title}: errors, pairs in their order, rows within, in percent"
    rows = table(title, texts=["set"], numbers=["rows", *percent])
    for row in errors.iter_rows(named=True):
        numbers = ("" if row[name] is None else f"{row[name]:.1f}" for name in percent)
        rows.add_row(row["set"], f"{row['rows']:,}", *numbers)
    show(rows)
    show(against.sentences(corpus, errors))
    if csv is not None:
        write_text(csv, frame.write_csv())


@app.command()
def reproduce(
    names: Notebooks = None,
    *,
    scale: Scale = None,
    trainings: Annotated[
        str | None, Name(help="one of each system, others as recorded; or all.  \\[default: one]")
    ] = None,
    parameter: Parameters = None,
    output: Annotated[Path | None, Folder(help="For results.  \\[default: data/results]")] = None,
    jobs: Annotated[
        int | None, Number(help="Notebooks at once.  \\[default: 2, or 1 core]")
    ] = None,
    figures: Annotated[Path | None, Folder(help="Also copy all SVG figures here.")] = None,
    notebooks: Annotated[
        Path | None, Folder(help="Where the notebooks are.  \\[default: notebooks]")
    ] = None,
) -> None:
    """Run notebooks and keep what they make: executed copies, figures, tables, a manifest."""
    instruction_set.fix()
    from workbench.reproduction.reproduce import reproduce as run

    given = _assignments(parameter or ())
    _refuse("trainings" in given, {"--trainings": trainings}, "is given by -p, too")
    given |= {"trainings": trainings} if trainings else {}
    report = run(
        names or (),
        scale=scale,
        given=given,
        notebooks=notebooks,
        output=output,
        figures=figures,
        jobs=jobs,
    )
    raise typer.Exit(report.exit_status)


@app.command()
def sweep(
    notebook: Notebook,
    *,
    parameter: Parameters = None,
    scale: Scale = None,
    processes: Processes = None,
    address: Address = None,
    force: Force = False,
    output: Annotated[Path | None, Folder(help=" \\[default: data/sweeps/NOTEBOOK]")] = None,
) -> None:
    """Run a notebook at every point of a grid: what it keeps in one frame, a row for each failure.

    Finished points are not run again; what was interrupted goes on.
    """
    instruction_set.fix()
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
        str | None, typer.Argument(help="fig13, …  \\[default: all that has no recording]")
    ] = None,
    *,
    scale: Annotated[str, Name(help="smoke, default or paper.")] = "paper",
    seeds: Annotated[int | None, Number(help="Of a training.  \\[default: the scale's]")] = None,
    processes: Processes = None,
    parameter: Parameters = None,
    force: Force = False,
    output: Annotated[Path | None, Folder(help=" \\[default: data/recorded]")] = None,
) -> None:
    """Run an experiment of hours and keep its rows, for notebooks and scorecard to show.

    What was interrupted goes on.
    """
    instruction_set.fix()
    from workbench.reproduction import recordings
    from workbench.reproduction.record import check_arguments, unrecorded
    from workbench.reproduction.record import record as run
    from workbench.reproduction.sweep import ExperimentInterrupted

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
        rows = counted(len(stopped.frame), "row")
        typer.echo(f"stopped with {rows} finished; the same command goes on", err=True)
        raise typer.Exit(INTERRUPTED) from None


@app.command()
def scorecard(
    *,
    system: System = None,
    claim: Annotated[
        str | None, Name(help="A claim, a beginning or a pattern (dlion.*.ako), with evidence.")
    ] = None,
    format: Annotated[str, Name(help="table, json or markdown.")] = "table",
    picture: Annotated[Path | None, File(help="Also draw it, as SVG, into this file.")] = None,
    results: Results = None,
) -> None:
    """Print each claim of the papers beside what the stored results say; nothing is run."""
    from workbench.reproduction import scorecard as judged
    from workbench.reproduction.folder import writable

    card_options = {"--system": system, "--picture": picture, "--format": format != "table"}
    _refuse(claim is not None, card_options, "is of the whole scorecard; leave out --claim")
    check_name("format", format, judged.FORMATS)
    if picture is not None:
        judged.check_picture(picture)
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
    format: Annotated[str, Name(help="svg, pdf or png.")] = "svg",
    column: Annotated[str, Name(help="single (3.5 in) or double (7.16 in).")] = "double",
    output: Annotated[Path | None, Folder(help="Where they go.  \\[default: figures]")] = None,
    results: Results = None,
) -> None:
    """Export stored figures in the size and format of a paper; nothing is run.

    Beside PDF and PNG, figures.tex shows them in LaTeX, with captions and the claims they answer.
    """
    from workbench.reproduction.notebook_files import find, notebooks_folder
    from workbench.reproduction.results import export_figures, stored, stored_figures
    from workbench.reproduction.scorecard import latex
    from workbench.reproduction.systems import TITLES
    from workbench.utils import files

    folder = _stored(results)
    if not stored(folder):  # refuse a wrong name first
        of_figures = tuple(f"{system}_" for system in TITLES)
        find(
            notebooks_folder(None),
            [name for name in names or () if not name.startswith(of_figures)],
        )
    home = output or files.home() / "figures"
    chosen = stored_figures(folder, names or ())
    written, failed = export_figures(chosen, home, format=format, column=column)
    for path in written.values():
        typer.echo(str(path))
    if written and format in latex.FORMATS:
        typer.echo(str(latex.write(written, home, folder, column, format)))
    if failed:
        drawn = f"{len(written)} of {counted(len(chosen), 'figure')} written"
        raise UserError("\n".join([f"{drawn}, but not:", *failed]))


@app.command()
def share(
    notebook: Annotated[str | None, typer.Argument(help="01_dynacomm, dynacomm or 01.")] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Those of all notebooks: -o DIR.")] = False,
    output: Annotated[Path | None, File("-o", "--output", help="Where the page goes.")] = None,
    parameter: Parameters = None,
    processes: Processes = None,
) -> None:
    """Write a notebook's explorer as a page of sliders that needs neither kernel nor network."""
    from workbench import share as sharing
    from workbench.reproduction.folder import writable

    if (notebook is None) is not every:
        raise UserError("name one notebook, or take --all")
    if every and parameter:
        raise UserError("-p is for one notebook's page, not for --all")
    if output is None:
        raise UserError("say where the page goes: -o NAME.html, or -o DIR with --all")
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


def _refuse(refused: bool, options: dict[str, Any], why: str) -> None:
    """Refuse the first of these options that is set, where that cannot be."""
    for option, value in options.items():
        if refused and value:
            raise UserError(f"{option} {why}")


@contextmanager
def _traced(otherwise: str) -> Iterator[None]:
    """Say what follows for a command where a model's operators depend on its data."""
    from workbench.profiles.graph import UntraceableError

    try:
        yield
    except UntraceableError as error:
        raise UserError(f"{error.reason}; {otherwise}") from None


def _batch_sizes(text: str) -> tuple[int, ...]:
    from workbench.reproduction.parameters import PARAMETERS

    sizes = (int(PARAMETERS["batch_size"].parse(size)) for size in text.split(","))
    return tuple(dict.fromkeys(sizes))


def _stored(folder: Path | None) -> Path:
    from workbench.reproduction.results import default_folder

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
