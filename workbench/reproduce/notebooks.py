"""Finds and reads notebooks, and the value of every parameter that their cells declare."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from workbench import parameters, results, systems
from workbench.parameters import DRIVER_PARAMETER, Parameter, Value
from workbench.utils import files
from workbench.utils.checks import UserError, check_name, check_number


@dataclass(frozen=True)
class Notebook:
    """A notebook as it was read, with the parameters it declares, without the driver's own.

    A run executes `text`, whatever becomes of the file meanwhile; `cells` have type, source and
    tags. `keeps` is whether it declares ``output``, and so can keep results.
    """

    path: Path
    text: str = field(repr=False)
    cells: tuple[tuple[str, str, tuple[str, ...]], ...] = field(repr=False)
    parameters: Mapping[str, Parameter]
    defaults: Mapping[str, Value]
    keeps: bool

    @property
    def name(self) -> str:
        """``"01_dynacomm"``."""
        return self.path.stem

    @property
    def runs_in(self) -> Path:
        """Its own folder, or the current one where that is part of the installed package."""
        own = self.path.parent
        return files.home() if own == files.NOTEBOOKS and files.INSTALLED else own

    @property
    def source(self) -> list[str]:
        """Source of all cells, but for the parameters that a run has put in."""
        return [text for _, text, tags in self.cells if "injected-parameters" not in tags]

    @property
    def code_cells(self) -> int:
        """How many cells are code."""
        return sum(kind == "code" for kind, _, _ in self.cells)


def notebooks_folder(folder: Path | None = None) -> Path:
    """Return where the notebooks are: the argument, or the workbench's own.

    Raises ValueError: there are none.
    """
    place = folder or files.NOTEBOOKS
    if not notebook_paths(place):
        raise UserError(f"no notebooks in {place}; name their folder with --notebooks DIR")
    return place.resolve()


def notebook_paths(folder: Path) -> dict[str, Path]:
    """Return the notebooks of a folder by name, in order; not Jupyter's ``.~NAME.ipynb``."""
    paths = sorted(folder.glob("*.ipynb"))
    return {path.stem: path for path in paths if not path.name.startswith(".")}


def find(folder: Path, names: Sequence[str] = ()) -> list[Notebook]:
    """Return the notebooks of these names (see `results.notebook_named`), or all, in order.

    Raises ValueError: there is no notebook of such a name, or it cannot be read.
    """
    paths = notebook_paths(folder)
    known = dict.fromkeys([*paths, *map(results.system_of, paths)])
    bare = [results.notebook_named(name, paths) for name in names]
    chosen = {check_name("notebook", name, known) for name in bare}
    return [read_notebook(path) for stem, path in paths.items() if not names or stem in chosen]


def read_notebook(path: Path) -> Notebook:
    """Return a notebook with the parameters that its cell tagged ``parameters`` declares.

    Raises ValueError: the file cannot be read or is no notebook, or a parameter's default is not
    valid.
    """
    text = files.read_text(path)
    try:
        content = json.loads(text)
        cells = tuple(
            (
                str(cell["cell_type"]),
                "".join(cell["source"]),
                tuple(cell["metadata"].get("tags", ())),
            )
            for cell in content["cells"]
        )
        version = (content["nbformat"], content["nbformat_minor"])
        if version[0] != 4 or not isinstance(content["metadata"], dict):
            raise ValueError(f"version {version}")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"{path} is not a Jupyter notebook (nbformat 4): {error!r}") from None
    source = next((source for _, source, tags in cells if "parameters" in tags), "")
    declared = _declared(source, path)
    keeps = declared.pop(DRIVER_PARAMETER, None) is not None
    known = systems.parameters(results.system_of(path.stem))
    try:
        own = {name: parameters.own(name, default, known) for name, default in declared.items()}
        defaults = {name: own[name].check(value) for name, value in declared.items()}
    except ValueError as error:
        raise UserError(f"{path}: {error}") from None
    return Notebook(path, text, cells, own, defaults, keeps)


def _declared(source: str, path: Path) -> dict[str, object]:
    declared: dict[str, object] = {}
    try:
        statements = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UserError(f"{path}: the parameters cell is not Python: {error}") from None
    for statement in statements:
        kind = ""
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                kind = ast.unparse(statement.annotation)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case _:
                continue
        try:
            default = ast.literal_eval(value)
        except (ValueError, TypeError, RecursionError, MemoryError):
            raise UserError(
                f"{path}: the default of parameter {name!r} must be a plain value, "
                f"not {ast.get_source_segment(source, value)}"
            ) from None
        if kind == "float" and type(default) is int:
            default = check_number(name, default)
        declared[name] = default
        if kind in ("bool", "int", "float", "str") and type(default).__name__ != kind:
            raise UserError(
                f"{path}: parameter {name!r} is annotated as {kind}, but its default is {default!r}"
            )
    return declared


def check_declared(name: str, notebooks: Sequence[Notebook]) -> None:
    """Refuse the name of a parameter that none of these notebooks declares."""
    declared = (parameter for book in notebooks for parameter in book.parameters.values())
    known = list(dict.fromkeys(declared))
    if all(parameter.name != name for parameter in known) and name in systems.every_parameter():
        chosen = ", ".join(notebook.name for notebook in notebooks)
        raise UserError(
            f"parameter {name!r} belongs to none of the chosen notebooks ({chosen}). "
            f"Their parameters:\n{parameters.listing(known)}"
        )
    parameters.check_known(name, known)


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
    declared = (parameter for book in notebooks for parameter in book.parameters.values())
    names = [parameter.name for parameter in dict.fromkeys(declared)]
    for name, text in given.items():
        if name not in names and name in parameters.PARAMETERS:
            parameters.PARAMETERS[name].parse(text)  # what is wrong everywhere comes first
        check_declared(name, notebooks)
    asked = {"scale": "default", **given}

    def value(notebook: Notebook, name: str) -> Value:
        if name not in asked:
            return notebook.defaults[name]
        try:
            return notebook.parameters[name].parse(asked[name])
        except ValueError as error:
            if names.count(name) == 1:
                raise
            raise UserError(f"{notebook.name}: {error}") from None  # others take it

    return {
        notebook.name: {name: value(notebook, name) for name in notebook.parameters}
        for notebook in notebooks
    }
