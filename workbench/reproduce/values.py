"""What the user gave, checked before anything runs: the value of every parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workbench import parameters
from workbench.parameters import Value
from workbench.reproduce.notebooks import Notebook


def resolve(
    notebooks: Sequence[Notebook], scale: str | None, given: Mapping[str, str]
) -> dict[str, dict[str, Value]]:
    """Return the value of every parameter of every notebook, or refuse before anything runs.

    Parameters
    ----------
    notebooks
        Those that are to run.
    scale
        What ``--scale`` says, if anything; ``"default"`` if `given` does not say either.
    given
        Parameters as written by the user; each goes to those notebooks that have it.

    Raises
    ------
    ValueError
        A parameter that no notebook among these has, or a value that is not allowed.
    """
    if scale is not None:
        if "scale" in given:
            raise ValueError("the scale is given twice: by --scale and by -p scale=…")
        given = {"scale": scale, **given}
    known = {name: one for notebook in notebooks for name, one in notebook.parameters.items()}
    for name, text in given.items():
        if name in parameters.PARAMETERS and name not in known:
            parameters.parse(name, text)  # what is wrong everywhere is told first
            chosen = ", ".join(notebook.name for notebook in notebooks)
            raise ValueError(
                f"parameter {name!r} belongs to none of the chosen notebooks ({chosen}). "
                f"Their parameters:\n{parameters.listing(known)}"
            )
        parameters.parse(name, text, known)
    asked = {"scale": "default", **given}
    return {
        notebook.name: {
            name: one.parse(asked[name]) if name in asked else notebook.defaults[name]
            for name, one in notebook.parameters.items()
        }
        for notebook in notebooks
    }
