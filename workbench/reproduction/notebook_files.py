"""Notebooks: where they are, which parameters they declare, and the values to run them with."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from workbench.reproduction import parameters, results, systems
from workbench.reproduction.parameters import DRIVER_PARAMETER, Parameter, Value
from workbench.utils import files
from workbench.utils.checks import UserError, check_name, check_number


@dataclass(frozen=True)
class Notebook:
    """A notebook as it was read.

    Attributes
    ----------
    text
        The file's content, which is what a run executes, whatever becomes of the file meanwhile.
    cells
        Type, source and tags of each cell.
    parameters, defaults
        The parameters that it declares, other than the folder of its results, by name.
    keeps_results
        Whether it declares ``output``, the folder of its results.
    """

    path: Path
    text: str = field(repr=False)
    cells: tuple[tuple[str, str, tuple[str, ...]], ...] = field(repr=False)
    parameters: Mapping[str, Parameter]
    defaults: Mapping[str, Value]
    keeps_results: bool

    @property
    def name(self) -> str:
        """``"01_dynacomm"``."""
        return self.path.stem

    @property
    def working_directory(self) -> Path:
        """Its own folder, or the current one where that is part of the installed package."""
        folder = self.path.parent
        return files.home() if folder == files.NOTEBOOKS and files.INSTALLED else folder

    @property
    def code_cells(self) -> int:
        """Number of cells that hold code."""
        return sum(kind == "code" for kind, _, _ in self.cells)


def notebook_paths(folder: Path) -> dict[str, Path]:
    """Return the notebooks of a folder by name, in order; not Jupyter's ``.~NAME.ipynb``."""
    paths = sorted(folder.glob("*.ipynb"))
    return {path.stem: path for path in paths if not path.name.startswith(".")}


def notebooks_folder(folder: Path | None = None) -> Path:
    """Return the folder of notebooks, by default the workbench's own; UserError if it has none."""
    folder = folder or files.NOTEBOOKS
    if not notebook_paths(folder):
        raise UserError(f"no notebooks in {folder}; name their folder with --notebooks DIR")
    return folder.resolve()


def find(folder: Path, names: Sequence[str] = ()) -> list[Notebook]:
    """Return the notebooks of these names (see `results.notebook_named`), by default all.

    Raises UserError: there is no notebook of such a name, or it cannot be read.
    """
    paths = notebook_paths(folder)
    known = dict.fromkeys([*paths, *map(results.system_of, paths)])
    chosen = {check_name("notebook", results.notebook_named(name, paths), known) for name in names}
    return [read_notebook(path) for name, path in paths.items() if not names or name in chosen]


def read_notebook(path: Path) -> Notebook:
    """Return a notebook with the parameters that its cell tagged ``parameters`` declares.

    Raises UserError: the file cannot be read or is no notebook, or a parameter's default is not
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
    known = systems.parameters(results.system_of(path.stem))
    source = next((source for _, source, tags in cells if "parameters" in tags), "")
    try:
        declared = _declared(source)
        keeps_results = declared.pop(DRIVER_PARAMETER, None) is not None
        own = {name: parameters.own(name, default, known) for name, default in declared.items()}
        defaults = {name: own[name].check(value) for name, value in declared.items()}
    except ValueError as error:
        raise UserError(f"{path}: {error}") from None
    return Notebook(path, text, cells, own, defaults, keeps_results)


def _declared(source: str) -> dict[str, object]:
    """Return the parameters that a cell assigns, with their defaults.

    Papermill's own inspection leaves out a line with two equals signs, such as ``note = "a=b"``.
    """
    declared: dict[str, object] = {}
    try:
        statements = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UserError(f"the parameters cell is not Python: {error}") from None
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
                f"the default of parameter {name!r} must be a plain value, "
                f"not {ast.get_source_segment(source, value)}"
            ) from None
        if kind == "float" and type(default) is int:
            default = check_number(name, default)
        if kind in ("bool", "int", "float", "str") and type(default).__name__ != kind:
            raise UserError(
                f"parameter {name!r} is annotated as {kind}, but its default is {default!r}"
            )
        declared[name] = default
    return declared


def check_declared(name: str, notebooks: Sequence[Notebook]) -> None:
    """Refuse the name of a parameter that none of these notebooks declares."""
    known = _parameters(notebooks)
    if all(parameter.name != name for parameter in known) and name in systems.every_parameter():
        chosen = ", ".join(notebook.name for notebook in notebooks)
        raise UserError(
            f"parameter {name!r} belongs to none of the chosen notebooks ({chosen}). "
            f"Their parameters:\n{parameters.listing(known)}"
        )
    parameters.check_known(name, known)


def _parameters(notebooks: Iterable[Notebook]) -> list[Parameter]:
    """Return all parameters of some notebooks; of one name there may be several."""
    return list(dict.fromkeys(own for book in notebooks for own in book.parameters.values()))


def resolve(
    notebooks: Sequence[Notebook], scale: str | None, given: Mapping[str, str]
) -> dict[str, dict[str, Value]]:
    """Return the value of every parameter of every notebook, by the notebook's name.

    Parameters
    ----------
    scale
        ``"default"`` if neither this nor `given` has one.
    given
        Values as the user writes them, each for the notebooks that have the parameter.

    Raises UserError: a parameter that no notebook among these has, or a value that is not allowed.
    """
    if scale is not None:
        if "scale" in given:
            raise UserError("the scale is given twice: by --scale and by -p scale=…")
        given = {"scale": scale, **given}
    names = [parameter.name for parameter in _parameters(notebooks)]
    for name, text in given.items():
        if name not in names and name in parameters.PARAMETERS:
            parameters.PARAMETERS[name].parse(text)  # what is wrong everywhere comes first
        check_declared(name, notebooks)
    texts = {"scale": "default", **given}

    def value(notebook: Notebook, name: str) -> Value:
        if name not in texts:
            return notebook.defaults[name]
        try:
            return notebook.parameters[name].parse(texts[name])
        except ValueError as error:
            if names.count(name) == 1:
                raise
            raise UserError(f"{notebook.name}: {error}") from None  # other notebooks allow it

    return {
        notebook.name: {name: value(notebook, name) for name in notebook.parameters}
        for notebook in notebooks
    }
