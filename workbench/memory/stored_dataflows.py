"""Dataflows of the zoo, stored: known at once, at any batch size, without importing PyTorch.

Bytes and FLOPs are affine in the batch: a fixed part, and one for each sample. Both follow from
traces at two batch sizes and were checked at a third (`scripts/trace_zoo.py`). Where a model takes
other operators for a single sample (Mask R-CNN in inference), that is stored beside. The file bears
a fingerprint of the code it was traced by: where that has changed, models are traced again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from workbench import archives, fingerprints
from workbench.checks import check_whole
from workbench.memory.dataflow import ALIGNMENT, Dataflow, Held, Step, aligned, dataflow
from workbench.names import choose
from workbench.paths import DATA
from workbench.zoo import MODELS

PATH = DATA / "graphs" / "zoo.zip"

_PACKAGE = Path(__file__).parents[1]
_TRACING = (
    "zoo/*.py",
    "graphs/*.py",
    "graphs/optimiser/*.py",
    "memory/dataflow.py",
    "memory/scratch.py",
    "memory/stored_dataflows.py",
)
_SCRIPT = "scripts/trace_zoo.py"


def stored_dataflow(
    model: str,
    batch_size: int = 1,
    training: bool = False,
    optimised: bool = True,
    *,
    alignment: int = ALIGNMENT,
) -> Dataflow:
    """Dataflow of a model of the zoo at its own input shape, as `plan_memory` takes it.

    >>> from workbench.memory.stored_dataflows import stored_dataflow
    >>> stored_dataflow("lenet5", batch_size=32).held_bytes("weight")
    246824

    `optimised` is after `workbench.olpb.optimise`. An `Arena` needs a traced graph instead.
    Raises ValueError: a model that the zoo has not, or a batch size that is no positive whole
    number.
    """
    choose("model", model, MODELS)
    check_whole("batch_size", batch_size, 1)
    columns = _look_up(model, training, optimised, batch_size)
    if columns is None:
        return traced_dataflow(model, batch_size, training, optimised, alignment=alignment)
    return _flow(columns, alignment)


def traced_dataflow(
    model: str,
    batch_size: int = 1,
    training: bool = False,
    optimised: bool = True,
    *,
    alignment: int = ALIGNMENT,
) -> Dataflow:
    """As `stored_dataflow`, but traced, which takes seconds."""
    from workbench.graphs import trace
    from workbench.graphs.optimiser import optimise

    graph = trace(model, batch_size=batch_size, training=training)
    return dataflow(optimise(graph).graph if optimised else graph, alignment)


def fingerprint() -> str:
    """Return a hash of the code that decides what the dataflow of a model of the zoo is.

    Beside it PyTorch decides, whose version pyproject.toml fixes.
    """
    return fingerprints.fingerprint(_PACKAGE, _TRACING)


def forms(model: str, training: bool) -> dict[str, str]:
    """Trace a model at several batch sizes; what is to be stored of it, by name.

    Raises ValueError: its bytes or FLOPs are not affine in the batch.
    """
    from workbench.graphs import trace
    from workbench.graphs.optimiser import optimise

    @cache
    def traced(batch_size: int) -> tuple[Columns, Columns]:
        graph = trace(model, batch_size=batch_size, training=training)
        return _columns(dataflow(graph, 1)), _columns(dataflow(optimise(graph).graph, 1))

    found = {}
    for optimised in (False, True):
        one, two, three = (traced(size)[optimised] for size in (1, 2, 3))
        forms: dict[int, Columns | None] = {1: _affine(one, two, 1)}
        if forms[1] is None or _scaled(forms[1], 3) != three:
            forms = {1: one, 2: _affine(two, three, 2)}
            if forms[2] is None or _scaled(forms[2], 5) != traced(5)[optimised]:
                raise AssertionError(f"{model}: its bytes or FLOPs are not affine in the batch")
        for least, form in forms.items():
            name = _member(model, training, optimised, least)
            found[name] = json.dumps(form, separators=(",", ":"))
    return found


def store(found: Iterable[Mapping[str, str]], path: Path = PATH) -> None:
    """Write down forms of models, the same bytes for the same forms."""
    members = ((name, text.encode()) for one in found for name, text in one.items())
    archives.write(path, fingerprint(), members)


Columns = dict[str, Any]
"""A dataflow as lists. Where it holds for any batch, those of `_SCALING` have fixed parts, and
lists of the same name with `_EACH` what each sample adds."""

_SCALING = ("sizes", "flops", "held_bytes", "scratch_bytes")
_EACH = " of each sample"


def _member(model: str, training: bool, optimised: bool, least: int) -> str:
    phase = "training" if training else "inference"
    return f"{model}, {phase}, {'optimised' if optimised else 'as traced'}, from {least}"


def _columns(flow: Dataflow) -> Columns:
    steps = flow.steps
    names = list(dict.fromkeys(one.name for one in steps))
    phases = list(dict.fromkeys(one.phase for one in steps))
    return {
        "names": names,
        "name": [names.index(one.name) for one in steps],
        "phases": phases,
        "phase": [phases.index(one.phase) for one in steps],
        "reads": [list(one.reads) for one in steps],
        "makes": [list(one.makes) for one in steps],
        "overwrites": [list(one.overwrites) for one in steps],
        "after": [list(one.after) for one in steps],
        "flops": [one.flops for one in steps],
        "operator": [one.operator for one in steps],
        "is_random": [int(one.is_random) for one in steps],
        "scratch_bytes": [one.scratch_bytes for one in steps],
        "sizes": flow.sizes.tolist(),
        "kept": sorted(flow.kept),
        "held": [[one.name, one.kind, one.is_written] for one in flow.held],
        "held_bytes": [one.size_bytes for one in flow.held],
    }


def _affine(at: Columns, one_more: Columns, batch_size: int) -> Columns | None:
    """Fixed parts and those of each sample, from two batch sizes; None if more differs."""
    if any(at[name] != one_more[name] for name in at.keys() - {*_SCALING}):
        return None
    found = dict(at)
    for name in _SCALING:
        each = np.subtract(one_more[name], at[name])
        found[name] = (np.asarray(at[name]) - batch_size * each).tolist()
        found[name + _EACH] = each.tolist()
    return found


def _scaled(form: Columns, batch_size: int) -> Columns | None:
    """Columns at a batch size; None if the form is of a single sample alone."""
    if _SCALING[0] + _EACH not in form:
        return form if batch_size == 1 else None
    found = {name: column for name, column in form.items() if not name.endswith(_EACH)}
    for name in _SCALING:
        each = np.asarray(form[name + _EACH], np.int64)
        found[name] = (np.asarray(form[name], np.int64) + batch_size * each).tolist()
    return found


def _flow(columns: Columns, alignment: int) -> Dataflow:
    names = [columns["names"][number] for number in columns["name"]]
    phases = [columns["phases"][number] for number in columns["phase"]]
    lists = [map(tuple, columns[name]) for name in ("reads", "makes", "overwrites", "after")]
    flags = map(bool, columns["is_random"])
    numbers = (columns["flops"], columns["operator"], flags, columns["scratch_bytes"])
    steps = tuple(map(Step, names, phases, *lists, *numbers))
    held = zip(columns["held"], columns["held_bytes"], strict=True)
    return Dataflow(
        steps,
        aligned(columns["sizes"], alignment),
        frozenset(columns["kept"]),
        tuple(Held(name, kind, size, written) for (name, kind, written), size in held),
    )


def _look_up(model: str, training: bool, optimised: bool, batch_size: int) -> Columns | None:
    """Stored columns at a batch size; None if the model has to be traced."""
    members = _members(PATH)
    for least in (2, 1) if batch_size > 1 else (1,):
        name = _member(model, training, optimised, least)
        if name in members and (
            found := _scaled(json.loads(archives.read(PATH, name, _SCRIPT)), batch_size)
        ):
            return found
    return None


@cache
def _members(path: Path) -> frozenset[str]:
    """Names of what a file holds, if the code that it was traced by is the code as it is."""
    return archives.names(path, fingerprint(), _SCRIPT)
