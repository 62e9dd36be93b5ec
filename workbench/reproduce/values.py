"""The user's values, checked before anything runs: the value of every parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workbench import parameters, systems
from workbench.errors import UserError
from workbench.parameters import Parameter, Value
from workbench.reproduce.notebooks import Notebook


def resolve(
    notebooks: Sequence[Notebook], scale: str | None, given: Mapping[str, str]
) -> dict[str, dict[str, Value]]:
    """Return the value of every parameter of every notebook, or refuse before anything runs.

    `given` are parameters as written by the user, each for the notebooks that have it; the scale is
    ``"default"`` if neither `scale` nor `given` has one.

    Raises ValueError: a parameter that no notebook among these has, or a value that is not allowed.
    """
    if scale is not None:
        if "scale" in given:
            raise UserError("the scale is given twice: by --scale and by -p scale=…")
        given = {"scale": scale, **given}
    known: list[Parameter] = []
    for one in (one for notebook in notebooks for one in notebook.parameters.values()):
        if one not in known:
            known.append(one)
    names = [one.name for one in known]
    for name, text in given.items():
        if name not in names and name in systems.every_parameter():
            if name in parameters.PARAMETERS:
                parameters.PARAMETERS[name].parse(text)  # what is wrong everywhere comes first
            chosen = ", ".join(notebook.name for notebook in notebooks)
            raise UserError(
                f"parameter {name!r} belongs to none of the chosen notebooks ({chosen}). "
                f"Their parameters:\n{parameters.listing(known)}"
            )
        parameters.check_known(name, known)
    asked = {"scale": "default", **given}

    def value(notebook: Notebook, one: Parameter) -> Value:
        if one.name not in asked:
            return notebook.defaults[one.name]
        try:
            return one.parse(asked[one.name])
        except ValueError as error:
            if names.count(one.name) == 1:
                raise
            raise UserError(f"{notebook.name}: {error}") from None  # others take it

    return {
        notebook.name: {name: value(notebook, one) for name, one in notebook.parameters.items()}
        for notebook in notebooks
    }
