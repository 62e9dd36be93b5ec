"""Results that notebooks have kept, and how they are read back.

They are laid out as ``RESULTS/NOTEBOOK/``::

    01_dynacomm.ipynb      the executed notebook
    fig5.parquet           every frame, by name
    figures/fig5.svg       every figure, double column
    figures/fig5.vl.json   the same as Vega-Lite, from which `workbench figures` makes other formats
    timings/               figures that hold timings of this machine, likewise
    manifest.json          when, from what and with which versions; hashes of all the above
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from workbench.reproduction.folder import writable
from workbench.reproduction.manifest import NAME as MANIFEST
from workbench.reproduction.manifest import Manifest, file_digest
from workbench.utils import files
from workbench.utils.checks import UserError, check_name, choose

if TYPE_CHECKING:
    import polars as pl

FIGURES, TIMINGS = "figures", "timings"


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest of one notebook's results folder; None where there is no valid one."""
    try:
        return Manifest.read(folder)
    except (OSError, ValueError):
        return None


def stored(results: Path) -> dict[str, Manifest]:
    """Return the manifests of all stored results, by notebook, in order."""
    if not results.is_dir():
        return {}
    folders = sorted(path for path in results.iterdir() if not path.name.startswith("."))
    manifests = {folder.name: read_manifest(folder) for folder in folders}
    return {name: manifest for name, manifest in manifests.items() if manifest is not None}


def by_system(kept: Mapping[str, Manifest]) -> dict[str, Manifest]:
    """Return the manifest of each system's results: the first of several notebooks."""
    return {made.system: made for made in reversed([*kept.values()])}


class Stored(NamedTuple):
    """Stored results of a system.

    Attributes
    ----------
    manifest
        None where nothing is stored.
    frames
        By name, without damaged ones, since such a file may end the process that reads it.
    damaged
        Frames and manifests that are missing, altered or unreadable.
    """

    manifest: Manifest | None
    frames: dict[str, pl.DataFrame]
    damaged: list[Path]


def load(results: Path, system: str) -> Stored:
    """Return what is stored of a system in the folder that `workbench reproduce` wrote."""
    import polars as pl

    folders = [path for path in results.glob("[!.]*/") if system_of(path.name) == system]
    manifests = [path / MANIFEST for path in folders if read_manifest(path) is None]
    damaged, frames = [path for path in manifests if path.exists()], {}
    made = by_system(stored(results)).get(system)
    outputs = (
        {results / made.of / name: made.outputs[name] for name in made.outputs} if made else {}
    )
    for path, digest in outputs.items():
        if path.suffix == ".parquet" and file_digest(path) != digest:
            damaged.append(path)
        elif path.suffix == ".parquet":
            frames[path.stem] = pl.read_parquet(path)
    return Stored(made, frames, damaged)


def system_of(notebook: str) -> str:
    """Return the system that a notebook is about: its name without the number in front."""
    return re.sub(r"^\d+_", "", notebook)


def notebook_named(name: str, notebooks: Iterable[str]) -> str:
    """Return the notebook of a name, which may be whole, or only its number or the rest.

    Folders in front and a ``.ipynb`` suffix are ignored. A name of no notebook is returned so.

    Raises UserError: it may be several.
    """
    bare, known = Path(name).name.removesuffix(".ipynb"), list(notebooks)
    meant = [stem for stem in known if re.fullmatch(r"\d+_.+", stem) and bare in stem.split("_", 1)]
    if bare in known or not meant:
        return bare
    if len(meant) > 1:
        raise UserError(f"notebook {name!r} may be any of {', '.join(meant)}")
    return meant[0]


def system_named(name: str) -> str:
    """Return the system that a user means by its name, its notebook's or the notebook's number."""
    notebooks = (path.stem for path in files.NOTEBOOKS.glob("[0-9]*.ipynb"))
    return system_of(notebook_named(name, notebooks))


class StoredFigure(NamedTuple):
    """A figure that a notebook kept, and its Vega-Lite specification."""

    system: str
    name: str
    path: Path
    digest: str

    def chart(self) -> dict[str, object]:
        """Return the specification. Raises ValueError: the file is not what the run wrote."""
        if file_digest(self.path) != self.digest:
            raise UserError(
                "missing, or no longer what the run wrote: run `workbench reproduce "
                f"{self.path.parents[1].name}`"
            )
        chart = json.loads(self.path.read_text(encoding="utf-8"))
        if not isinstance(chart, dict):
            raise UserError("holds no Vega-Lite specification")
        return chart

    def file(self, column: str, format: str) -> Path:
        """Return where it is exported to in a folder of figures."""
        suffix = "" if column == "double" else f"_{column}"
        file = Path(f"{self.system}_{self.name}{suffix}.{format}")
        return TIMINGS / file if self.path.parent.name == TIMINGS else file


def stored_figures(results: Path, names: Sequence[str] = ()) -> list[StoredFigure]:
    """Return the stored figures of these names, by default all.

    A name is a notebook's or system's, for all its figures, or a figure's: ``dynacomm_fig5``.

    Raises UserError: no figure is stored, or none of such a name.
    """
    kept = stored(results)
    if not kept:
        broken = sorted(str(path) for path in results.glob(f"[!.]*/{MANIFEST}"))
        if broken:
            raise UserError(f"{', '.join(broken)} cannot be read: run `workbench reproduce`")
        raise UserError(f"{results} holds no results yet; `workbench reproduce` makes them")
    figures = {
        notebook: [
            StoredFigure(made.system, file.removesuffix(".vl.json"), results / made.of / path, sha)
            for path, sha in sorted(made.outputs.items())
            if (file := path.rpartition("/")[2]).endswith(".vl.json")
        ]
        for notebook, made in kept.items()
    }
    known = {system: figures[made.of] for system, made in by_system(kept).items()} | figures
    alone = {
        f"{figure.system}_{figure.name}": [figure] for own in figures.values() for figure in own
    }
    chosen = list[StoredFigure]()
    for name in names:
        meant = notebook_named(name, kept)
        of = {title: own for title, own in alone.items() if meant.startswith(f"{own[0].system}_")}
        if meant in known or not of:
            chosen += choose("notebook", meant, known)
        else:
            chosen += choose("figure", meant, of)
    if not names:
        chosen = [figure for own in figures.values() for figure in own]
    if not chosen:
        raise UserError(
            f"results in {results} hold no figures of {', '.join(names) or 'any notebook'}; "
            "Results.show or Results.draw keeps them in a notebook that `workbench reproduce` runs"
        )
    return list(dict.fromkeys(chosen))


def export_figures(
    chosen: Iterable[StoredFigure], output: Path, *, format: str = "svg", column: str = "double"
) -> tuple[dict[StoredFigure, Path], list[str]]:
    """Write stored figures to a folder.

    They are called ``SYSTEM_FIGURE.FORMAT``, single-column ones ``SYSTEM_FIGURE_single.FORMAT``;
    those that hold timings of this machine go to ``timings`` in it.

    Parameters
    ----------
    format
        ``"svg"``, ``"pdf"`` or ``"png"``.
    column
        ``"single"`` or ``"double"``.

    Returns
    -------
    tuple[dict[StoredFigure, Path], list[str]]
        The figures with their files, and why others cannot be drawn so.

    Raises
    ------
    UserError
        An unknown format or column, or a folder that cannot be written.
    """
    from workbench import figures

    check_name("format", format, figures.FORMATS)
    check_name("column", column, figures.COLUMNS)
    writable(output)
    written, failed = dict[StoredFigure, Path](), list[str]()
    for figure in chosen:
        try:
            path = output / figure.file(column, format)
            written[figure] = figures.save(figure.chart(), path, column)
        except ValueError as error:
            failed.append(f"{figure.path}: {error}")
    return written, failed


def copy_figures(results: Path, notebook: str, output: Path) -> list[Path]:
    """Copy a notebook's stored SVG figures to one folder as ``SYSTEM_FIGURE.svg``.

    Those that hold timings of this machine are left out.
    """
    written = []
    for source in sorted((results / notebook / FIGURES).glob("*.svg")):
        path = output / f"{system_of(notebook)}_{source.name}"
        files.write_bytes(path, source.read_bytes())
        written.append(path)
    return written


def default_folder(root: Path | None = None) -> Path:
    """Return the default folder of results: ``data/results`` of the clone or current folder."""
    return (root or files.home()) / "data" / "results"
