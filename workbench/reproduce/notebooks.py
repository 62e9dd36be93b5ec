"""Finds and reads notebooks, with the parameters that their cells declare."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from workbench import parameters, results, systems
from workbench.errors import UserError
from workbench.names import check_name
from workbench.parameters import DRIVER_PARAMETER, Parameter, Value


@dataclass(frozen=True)
class Notebook:
    """A notebook as it was read, with the parameters it declares.

    Attributes
    ----------
    path
        The file; its name without suffix is the notebook's name.
    text
        The file's content: a run executes this, whatever becomes of the file meanwhile.
    cells
        The source of each cell, with its type and tags: all that a run depends on.
    parameters
        By name; without the driver's own.
    defaults
        The value of each parameter in the notebook's cell.
    keeps
        Whether it declares ``output``, and so can keep results.
    """

    path: Path
    text: str = field(repr=False)
    cells: tuple[tuple[str, str, tuple[str, ...]], ...] = field(repr=False)
    parameters: Mapping[str, Parameter]
    defaults: Mapping[str, Value]
    keeps: bool

    @property
    def name(self) -> str:
        """The file's name without its suffix: ``"01_dynacomm"``."""
        return self.path.stem

    @property
    def code_cells(self) -> int:
        """Number of code cells."""
        return sum(kind == "code" for kind, _, _ in self.cells)


def notebooks_folder(folder: Path | None = None) -> Path:
    """Return where the notebooks are: the argument, else the clone's, else the current directory's.

    Raises ValueError: there are no notebooks in any of these.
    """
    places = [folder] if folder else [results.repository() / "notebooks", Path.cwd() / "notebooks"]
    for place in places:
        if notebook_paths(place):
            return place.resolve()
    where = " or ".join(str(place) for place in dict.fromkeys(places))
    raise UserError(f"no notebooks in {where}; name their folder with --notebooks DIR")


def notebook_paths(folder: Path) -> dict[str, Path]:
    """Return the notebooks of a folder by name, in order; not Jupyter's ``.~NAME.ipynb``."""
    paths = sorted(folder.glob("*.ipynb"))
    return {path.stem: path for path in paths if not path.name.startswith(".")}


def find(folder: Path, names: Sequence[str] = ()) -> list[Notebook]:
    """Return the notebooks of these names, or all, in the order of their names.

    Names are whole, or only the number or the rest; a ``.ipynb`` suffix and folders in front are
    ignored.

    Raises ValueError: no notebook of such a name (the message names the nearest), or an unreadable
    one.
    """
    paths = notebook_paths(folder)
    chosen = set()
    for name in names:
        bare = results.notebook_named(name, paths)
        chosen.add(
            check_name("notebook", bare, dict.fromkeys([*paths, *map(results.system_of, paths)]))
        )
    return [read_notebook(path) for stem, path in paths.items() if not names or stem in chosen]


def read_notebook(path: Path) -> Notebook:
    """Return a notebook with the parameters that its cell tagged ``parameters`` declares.

    Raises ValueError: the file cannot be read or is no notebook, or a parameter's default is not
    valid.
    """
    try:
        text = path.read_text(encoding="utf-8")
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
            raise UserError(f"version {version}")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
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
    except SyntaxError as error:
        raise UserError(f"{path}: the parameters cell is not Python: {error}") from None
    for statement in statements:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                pass
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case _:
                continue
        try:
            declared[name] = ast.literal_eval(value)
        except (ValueError, TypeError):
            raise UserError(
                f"{path}: the default of parameter {name!r} must be a plain value, "
                f"not {ast.unparse(value)}"
            ) from None
    return declared
