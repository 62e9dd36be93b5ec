"""Dataflows of the zoo, stored: known at once, at any batch size, without importing PyTorch.

Bytes and FLOPs are affine in the batch: a fixed part, and one for each sample. Both follow from
traces at two batch sizes and were checked at a third (`scripts/trace_zoo.py`). Where a model takes
other operators for a single sample (Mask R-CNN in inference), that is stored beside.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from typing import Any

import numpy as np

from workbench.memory.dataflow import ALIGNMENT, Dataflow, Held, Step, aligned, dataflow
from workbench.utils.checks import check_whole, choose
from workbench.utils.files import DATA
from workbench.zoo import MODELS

STORED = DATA / "graphs" / "zoo.zip"
"""Written by `scripts/trace_zoo.py`."""


def stored_dataflow(
    model: str, batch_size: int = 1, training: bool = False, optimised: bool = True
) -> Dataflow:
    """Dataflow of a model of the zoo at its own input shape, as `plan_memory` takes it.

    >>> from workbench.memory.stored_dataflows import stored_dataflow
    >>> stored_dataflow("lenet5", batch_size=32).held_bytes("weight")
    246824

    `optimised` is after `workbench.memory.optimiser.optimise`. An `Arena` needs a traced graph.

    Raises ValueError: an unknown model, or a batch size that is not a positive whole number.
    """
    choose("model", model, MODELS)
    check_whole("batch_size", batch_size, 1)
    return _flow(_look_up(model, training, optimised, batch_size))


def forms(model: str, training: bool) -> Iterator[tuple[str, bytes]]:
    """Trace a model at several batch sizes; members to store, with their names."""
    from workbench.memory.optimiser import optimise
    from workbench.memory.tracing import trace

    @cache
    def traced(batch_size: int) -> tuple[Columns, Columns]:
        graph = trace(model, batch_size=batch_size, training=training)
        return _columns(dataflow(graph, 1)), _columns(dataflow(optimise(graph).graph, 1))

    for optimised in (False, True):
        one, two, three = (traced(size)[optimised] for size in (1, 2, 3))
        from_size: dict[int, Columns | None] = {1: _affine(one, two, 1)}
        if from_size[1] is None or _scaled(from_size[1], 3) != three:
            from_size = {1: one, 2: _affine(two, three, 2)}
            if from_size[2] is None or _scaled(from_size[2], 5) != traced(5)[optimised]:
                raise AssertionError(f"{model}: its bytes or FLOPs are not affine in the batch")
        for least, form in from_size.items():
            text = json.dumps(form, separators=(",", ":"))
            yield _member(model, training, optimised, least), text.encode()


Columns = dict[str, Any]
"""A dataflow as lists. Where it holds for any batch, those of `_SCALING` have fixed parts, and
lists of the same name with `_EACH` what each sample adds."""

_SCALING = ("sizes", "flops", "held_bytes")
_EACH = " of each sample"
_OF_STEPS = [field.name for field in fields(Step)][2:]  # but for name and phase


def _member(model: str, training: bool, optimised: bool, least: int) -> str:
    phase = "training" if training else "inference"
    return f"{model}, {phase}, {'optimised' if optimised else 'as traced'}, from {least}"


def _columns(flow: Dataflow) -> Columns:
    names = list(dict.fromkeys(step.name for step in flow.steps))
    phases = list(dict.fromkeys(step.phase for step in flow.steps))
    return {
        "names": names,
        "name": [names.index(step.name) for step in flow.steps],
        "phases": phases,
        "phase": [phases.index(step.phase) for step in flow.steps],
        **{name: [getattr(step, name) for step in flow.steps] for name in _OF_STEPS},
        "is_random": [int(step.is_random) for step in flow.steps],
        "sizes": flow.sizes.tolist(),
        "kept": sorted(flow.kept),
        "held": [[held.name, held.kind, held.is_written] for held in flow.held],
        "held_bytes": [held.size_bytes for held in flow.held],
    }


def _affine(at: Columns, one_more: Columns, batch_size: int) -> Columns | None:
    """Fixed parts and those of each sample, from two batch sizes; None if more differs."""
    if any(at[name] != one_more[name] for name in at.keys() - {*_SCALING}):
        return None
    form = dict(at)
    for name in _SCALING:
        each = np.subtract(one_more[name], at[name])
        form[name] = (np.asarray(at[name]) - batch_size * each).tolist()
        form[name + _EACH] = each.tolist()
    return form


def _scaled(form: Columns, batch_size: int) -> Columns | None:
    """Columns at a batch size; None if the form is of a single sample alone."""
    if _SCALING[0] + _EACH not in form:
        return form if batch_size == 1 else None
    columns = {name: column for name, column in form.items() if not name.endswith(_EACH)}
    for name in _SCALING:
        each = np.asarray(form[name + _EACH], np.int64)
        columns[name] = (np.asarray(form[name], np.int64) + batch_size * each).tolist()
    return columns


def _flow(columns: Columns) -> Dataflow:
    names = [columns["names"][number] for number in columns["name"]]
    phases = [columns["phases"][number] for number in columns["phase"]]
    lists = [map(tuple, columns[name]) for name in ("reads", "makes", "overwrites", "after")]
    flags = map(bool, columns["is_random"])
    numbers = (columns["flops"], columns["operator"], flags)
    held = zip(columns["held"], columns["held_bytes"], strict=True)
    return Dataflow(
        tuple(map(Step, names, phases, *lists, *numbers)),
        aligned(columns["sizes"], ALIGNMENT),
        frozenset(columns["kept"]),
        tuple(Held(name, kind, size, written) for (name, kind, written), size in held),
    )


def _look_up(model: str, training: bool, optimised: bool, batch_size: int) -> Columns:
    """Stored columns at a batch size; a model may have other columns from two samples on."""
    archive = _archive()
    name = _member(model, training, optimised, 2)
    if batch_size == 1 or name not in archive.NameToInfo:
        name = _member(model, training, optimised, 1)
    columns = _scaled(json.loads(archive.read(name)), batch_size)
    assert columns is not None, f"{name} is of a single sample alone"
    return columns


@cache
def _archive() -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO(STORED.read_bytes()))
