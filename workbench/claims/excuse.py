"""Why a claim has no answer, and the command that makes one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from workbench import results as stored_results
from workbench.parameters import Value

if TYPE_CHECKING:
    import polars as pl


def excuse(
    system: str,
    frames: Mapping[str, pl.DataFrame],
    parameters: Mapping[str, Value],
    fault: str,
    damaged: Sequence[Path] = (),
) -> str:
    """Return what to say of claims that a system leaves without an answer.

    Parameters
    ----------
    system
        Whose claims; it is built.
    frames
        By name; empty where nothing is stored.
    parameters
        Of the notebook, as the frames were made with; empty if that is not known.
    fault
        What the frames lack that the system's answers look for; empty if nothing.
    damaged
        Frames that are stored, but not among these.
    """
    command = reproduce_command(system)
    if damaged:
        named = ", ".join(map(str, damaged))
        are = "are" if len(damaged) > 1 else "is"
        return f"{named} {are} missing or no longer what the run wrote: run `{command}`"
    if not frames:
        return f"no stored results: run `{command}`"
    if fault:
        return f"the stored results are of another version ({fault}): run `{command} --force`"
    given = ", ".join(f"{name}={value}" for name, value in _given(system, parameters).items())
    if given:
        return f"the stored results were made with {given}: run `{command}`"
    return f"the stored results have no answer to it: run `{command} --force`"


def reproduce_command(system: str) -> str:
    """Return the command that makes a system's results."""
    path = _notebook(system)
    return f"workbench reproduce {path.stem if path else system}"


def _given(system: str, parameters: Mapping[str, Value]) -> dict[str, Value]:
    """Return those parameters, by name, that `reproduce_command` would set otherwise."""
    path = _notebook(system)
    if path is None or not parameters:
        return {}
    from workbench.reproduce import read_notebook, resolve

    try:
        notebook = read_notebook(path)
    except ValueError:  # the results can still be judged; to refuse it is for `reproduce`
        return {}
    usual = resolve([notebook], scale=None, given={})[notebook.name]
    return {
        name: value
        for name, value in sorted(parameters.items())
        if name in usual and value != usual[name]
    }


def _notebook(system: str) -> Path | None:
    """Return the notebook that makes a system's results; None if the clone has none."""
    folder = stored_results.repository() / "notebooks"
    return next(iter(sorted(folder.glob(f"*_{system}.ipynb"))), None)
