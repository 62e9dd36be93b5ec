"""Tables 1 to 3, and what the cost model says of every system."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import polars as pl

from workbench.clusters.schedule import Schedule
from workbench.dlion.algorithms import COMPARED, SYSTEMS, synchronisation
from workbench.dlion.costs.environments import ENVIRONMENTS
from workbench.dlion.paper.testbed import STATED

HOOKS = ("generate_partial_gradients", "synch_training")
_GIVEN = (
    synchronisation.synchronous,
    synchronisation.asynchronous,
    synchronisation.delivered,
    synchronisation.Bounded,
)


def table1() -> pl.DataFrame:
    """Statements that each system's hooks need (Table 1): ``system, hook, statements``.

    A hook counts the statements of its function; of a class, of its ``__init__`` and ``__call__``;
    docstrings not, nor what these call. A way to wait that every system may name counts none.
    """
    rows = [
        (name, hook, statements(getattr(SYSTEMS[name], hook)))
        for name in COMPARED
        for hook in HOOKS
    ]
    schema = {"system": pl.String, "hook": pl.String, "statements": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def statements(hook: Callable[..., Any]) -> int:
    """How many statements a hook has, by the rule of `table1`."""
    if hook in _GIVEN or isinstance(hook, _GIVEN[-1]):
        return 0
    if not isinstance(hook, type) and not inspect.isfunction(hook):
        hook = type(hook)
    tree = ast.parse(textwrap.dedent(inspect.getsource(hook))).body[0]
    bodies = [tree]
    if isinstance(tree, ast.ClassDef):
        wanted = ("__init__", "__call__")
        bodies = [one for one in tree.body if getattr(one, "name", "") in wanted]
    return sum(
        isinstance(one, ast.stmt) and not _is_docstring(one)
        for body in bodies
        for one in ast.walk(body)
        if one is not body
    )


def _is_docstring(one: ast.stmt) -> bool:
    return isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)


def table2() -> pl.DataFrame:
    """Mbit/s between the six regions (Table 2): ``source, target, mbps``."""
    names = list(STATED["regions"])
    rows = [
        (names[source], names[target], mbps)
        for (source, target), mbps in ENVIRONMENTS["regions"].pairs_mbps.items()
    ]
    schema = {"source": pl.String, "target": pl.String, "mbps": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def table3(end_s: float = 1500.0) -> pl.DataFrame:
    """Cores and Mbit/s of each worker over time, by environment (Table 3).

    Columns ``environment, node, from_s, to_s, cores, unit, mbps``.
    """
    rows = []
    for name, where in ENVIRONMENTS.items():
        for node, (cores, mbps) in enumerate(zip(where.cores, where.mbps, strict=True)):
            starts = {0.0, end_s}
            for one in (cores, mbps):
                starts |= {at for at in Schedule.of(one).starts_s if at < end_s}
            for from_s, to_s in pairwise(sorted(starts)):
                at = [Schedule.of(one).at(from_s) for one in (cores, mbps)]
                rows.append((name, node, from_s, to_s, at[0], where.unit, at[1]))
    schema: dict[str, Any] = {
        "environment": pl.String,
        "node": pl.Int64,
        **dict.fromkeys(("from_s", "to_s", "cores"), pl.Float64),
        "unit": pl.String,
        "mbps": pl.Float64,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")
