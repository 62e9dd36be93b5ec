"""What a notebook shows and keeps.

A notebook holds one `Results`; `workbench reproduce` gives it a folder::

    results = Results("dynacomm", output, trainings, scale=scale, seed=seed, dataset=dataset)
    results.show(speed.FIG5, batch_size=batch_size)
    results.table(planning.TABLE2)
    results.keep("readings", frame)

The layout of that folder is in `workbench.reproduction.results`.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from workbench.reproduction import recordings, tables
from workbench.reproduction.parameters import TRAININGS
from workbench.reproduction.results import FIGURES, TIMINGS
from workbench.utils import files
from workbench.utils.checks import UserError, check_name

if TYPE_CHECKING:
    import polars as pl
    from altair.typing import ChartType

    from workbench.reproduction.figure import Figure
    from workbench.reproduction.recordings import Recording

Column = Literal["single", "double"]


@dataclass(frozen=True)
class Drawing:
    """A chart as Jupyter shows it: an SVG, and a PNG where SVG is not trusted; needs no network.

    JupyterLab draws no SVG in a notebook that it has not run itself, such as an executed copy.
    """

    svg: str
    png: bytes
    alt: str

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {
            "image/svg+xml": self.svg,
            "image/png": base64.b64encode(self.png).decode(),
            "text/plain": self.alt,
        }


def drawing(chart: ChartType | Mapping[str, Any], alt: str, column: Column = "double") -> Drawing:
    """Draw a chart as Jupyter shows it, with an alternative text."""
    import vl_convert

    from workbench import figures

    svg = figures.svg(chart, column=column)
    return Drawing(svg, vl_convert.svg_to_png(svg, scale=2), alt)


@dataclass(frozen=True)
class Shown:
    """The frame of a figure and its drawing; Jupyter shows the drawing alone."""

    frame: pl.DataFrame
    drawing: Drawing

    def _repr_mimebundle_(self, **options: object) -> dict[str, str]:
        return self.drawing._repr_mimebundle_(**options)


def _chart(figure: Figure, frame: pl.DataFrame, recording: Recording | None) -> ChartType:
    """Draw rows of a figure; recorded timings say of which processor they are."""
    assert figure.chart is not None
    chart = figure.chart(frame)
    if figure.timings and recording is not None:
        chart.title = [*chart.title, f"on {recording.manifest.machine['processor']}"]
    return chart


class Results:
    """The frames and figures of one notebook, which shows frames as `tables.as_html` does.

    Parameters
    ----------
    system
        ``"dynacomm"``.
    output
        The folder to keep them in; empty (a notebook used by hand) shows them only.
    trainings
        ``"one"``: recorded figures are shown from their recording, except `live` ones. ``"all"``:
        all are computed here; what is recorded at scale ``paper`` is drawn as well.
    recordings
        The folder of what is recorded.
    shared
        Parameters that every figure gets that has them, such as ``scale`` and ``seed``.

    Attributes
    ----------
    frames : dict[str, pl.DataFrame]
        What was made here and shown or kept so far, by name, whether or not it is written.
    """

    def __init__(
        self,
        system: str,
        output: str | Path = "",
        trainings: str = "one",
        *,
        recordings: Path = recordings.FOLDER,
        **shared: Any,
    ) -> None:
        self.system = system
        self.folder = files.expanded(output) if output else None
        self.trainings = check_name("trainings", trainings, TRAININGS)
        self.recordings = recordings
        self.shared = shared
        self.frames: dict[str, pl.DataFrame] = {}
        self._shown: dict[str, tuple[pl.DataFrame, bool]] = {}  # and whether it was made here
        tables.format_frames()

    def show(self, figure: Figure, **given: Any) -> Shown:
        """Draw a figure: as it is recorded, saying so, or computed here with what is given."""
        assert figure.chart is not None
        frame, recording, here = self._rows(figure, given)
        if not here:
            return Shown(frame, self.draw(figure.id, _chart(figure, frame, recording)))
        self.keep(figure.id, frame)
        drawn = self.draw(figure.id, figure.chart(frame), timings=figure.timings)
        if recording and recording.scale == "paper":
            from IPython.display import display

            print(recording)
            about = f"{self.system}: {figure.id} (recorded figure)"
            chart = _chart(figure, recording.frame, recording)
            display(drawing(chart, about))  # type: ignore[no-untyped-call]
        return Shown(frame, drawn)

    def table(self, figure: Figure, **given: Any) -> pl.DataFrame:
        """Return the rows of a figure, as `show` does."""
        frame, _, here = self._rows(figure, given)
        return self.keep(figure.id, frame) if here else frame

    def keep(self, name: str, frame: pl.DataFrame) -> pl.DataFrame:
        """Keep a frame as ``NAME.parquet`` and return it.

        Raises ValueError: `name` is not made of small letters, digits and underscores.
        """
        if re.fullmatch(r"[a-z][a-z0-9_]*", name) is None:
            raise UserError(f"result {name!r}: a name has small letters, digits and _ only")
        self.frames[name] = frame
        if self.folder is not None:
            files.write_parquet(self.folder / f"{name}.parquet", frame)
        return frame

    def draw(
        self, name: str, chart: ChartType, *, column: Column = "double", timings: bool = False
    ) -> Drawing:
        """Keep a chart as a figure and return what Jupyter displays.

        Parameters
        ----------
        name
            Of the figure's files.
        chart
            An Altair chart of any kind.
        column
            IEEE ``"single"`` or ``"double"`` column.
        timings
            Whether it holds timings of this machine, so that it differs from run to run: it is
            kept apart, and not copied to ``figures/``.
        """
        from workbench import figures

        drawn = drawing(chart, f"{self.system}: {name} (figure)", column)
        if self.folder is not None:
            specification = figures.specification(chart)
            folder = self.folder / (TIMINGS if timings else FIGURES)
            files.write_text(
                folder / f"{name}.vl.json",
                json.dumps(specification, indent=1, sort_keys=True) + "\n",
            )
            files.write_text(folder / f"{name}.svg", drawn.svg)
        return drawn

    def _rows(
        self, figure: Figure, given: Mapping[str, Any]
    ) -> tuple[pl.DataFrame, Recording | None, bool]:
        """Return a figure's rows, its recording, and whether the rows were made here."""
        if figure.of:
            frames, here = self._sources(figure.of, given)
            return self._remember(figure, figure.compute(*frames), here), None, here
        arguments = self._arguments(figure, given)
        recording = self._recorded(figure)
        if recording and not figure.live and self._can_replace(recording, arguments):
            print(recording)
            print("set trainings='all' to run it here")
            return self._remember(figure, recording.frame, False), recording, False
        return self._remember(figure, figure.frame(**arguments), True), recording, True

    def _sources(
        self, figures: Sequence[Figure], given: Mapping[str, Any]
    ) -> tuple[list[pl.DataFrame], bool]:
        """Return the rows of figures, and whether they were made here: all of them or none."""
        if len(figures) == 1:
            (figure,) = figures
            shown = None if given else self._shown.get(figure.id)
            frame, here = shown or self._rows(figure, given)[::2]
            return [frame], here
        arguments = [self._arguments(figure, given) for figure in figures]
        recorded = [
            recording
            for figure, own in zip(figures, arguments, strict=True)
            if (recording := self._recorded(figure)) and self._can_replace(recording, own)
        ]
        kinds = {
            (recording.scale, *recording.manifest.data.items(), *recording.manifest.seeds)
            for recording in recorded
        }
        if len(recorded) < len(figures) or len(kinds) > 1:
            return [
                figure.frame(**own) for figure, own in zip(figures, arguments, strict=True)
            ], True
        for figure, recording in zip(figures, recorded, strict=True):
            print(f"{figure.id}: {recording}")
        print("set trainings='all' to run them here")
        return [recording.frame for recording in recorded], False

    def _arguments(self, figure: Figure, given: Mapping[str, Any]) -> dict[str, Any]:
        known = {"scale", *figure.parameters()}
        return {name: value for name, value in self.shared.items() if name in known} | dict(given)

    def _can_replace(self, recording: Recording, arguments: Mapping[str, Any]) -> bool:
        return self.trainings == "one" and recording.answers(arguments)

    def _recorded(self, figure: Figure) -> Recording | None:
        if not figure.recorded:
            return None
        try:
            return recordings.load(self.system, figure.id, self.recordings)
        except ValueError as error:
            print(error)
            return None

    def _remember(self, figure: Figure, frame: pl.DataFrame, here: bool) -> pl.DataFrame:
        self._shown[figure.id] = frame, here
        return frame
