"""One figure or table of a paper as one value: what is computed, drawn, answered and recorded."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from workbench.reproduction.claims import Answer, Cause
from workbench.reproduction.scales import Scaled

if TYPE_CHECKING:
    from altair.typing import ChartType

Rows = Callable[[pl.DataFrame], pl.DataFrame]
Answering = Callable[..., Answer | None]
"""A function of one figure's frame or several that returns our value for a claim, or None."""

RUNNING = ("processes", "folder")
"""Parameters of `Figure.compute` that say where points are computed; as for `sweep`."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure or table of a paper, or an experiment beside them.

    Attributes
    ----------
    id
        Name of its frame and files: small letters, digits and underscores.
    compute
        Makes the frame. Its parameters are those that a user may set, those in `sizes`, and, where
        it needs them, ``scale`` and `RUNNING`; a figure `of` others takes their frames.
    chart
        Draws the frame; None for a table.
    of
        Figures whose frames are all that this one is computed from; none of them is `of` others,
        and the parameters of the first are those of all.
    sizes
        Arguments of `compute` that the scale decides.
    answers
        Claim -> our value for it, by the frame.
    causes
        Claim -> why it is missed.
    at_paper
        Selects the rows of the frame that the paper's claims are about.
    recorded
        Whether `workbench record` offers it, since it takes long.
    data
        Data sets that it trains on at scale ``paper``.
    data_at_default
        The data set that it trains on at scale ``default``.
    judged_by_accuracy
        Whether claims are about how well it learns from `data`, so that they take several seeds;
        False where it learns only to be timed, watched or compared for equality.
    needs_paper_size
        Whether only a training of the paper's size decides its claims.
    live
        Whether it runs in a notebook even where it is recorded, to see it work.
    timings
        Whether it holds timings of this machine, which differ from run to run.
    """

    id: str
    compute: Callable[..., pl.DataFrame]
    chart: Callable[[pl.DataFrame], ChartType] | None = None
    of: tuple[Figure, ...] = ()
    sizes: Mapping[str, Scaled[Any]] = field(default_factory=dict)
    answers: Mapping[str, Answering] = field(default_factory=dict)
    causes: Mapping[str, Cause] = field(default_factory=dict)
    at_paper: Rows = lambda frame: frame
    recorded: bool = False
    data: tuple[str, ...] = ()
    data_at_default: str = "cluttered_digits"
    judged_by_accuracy: bool = True
    needs_paper_size: bool = False
    live: bool = False
    timings: bool = False

    @property
    def figures(self) -> tuple[Figure, ...]:
        """Figures whose frames its answers take."""
        return (self,)

    @property
    def bases(self) -> tuple[Figure, ...]:
        """Figures that are computed for it: itself, unless it is `of` others."""
        return self.of or (self,)

    def frame(self, scale: str = "default", **arguments: Any) -> pl.DataFrame:
        """Compute the frame at a scale.

        `arguments` are parameters by name, and `RUNNING`, which say where and in how many
        processes points are computed and may be given to any figure.
        """
        if self.of:
            return self.compute(*(figure.frame(scale, **arguments) for figure in self.of))
        sizes = {name: size.at(scale) for name, size in self.sizes.items()}
        accepted = inspect.signature(self.compute).parameters
        unused = {"scale", *RUNNING}.difference(accepted)
        values = {**sizes, "scale": scale, **arguments}
        return self.compute(**{name: values[name] for name in values if name not in unused})

    def parameters(self) -> dict[str, Any]:
        """Return the parameters that a user may set, with their defaults."""
        accepted = inspect.signature(self.bases[0].compute).parameters
        decided = {"scale", *RUNNING, *self.bases[0].sizes}
        return {name: accepted[name].default for name in accepted if name not in decided}


@dataclass(frozen=True)
class JointClaims:
    """Claims that several figures answer; `answers` take their frames in this order."""

    figures: tuple[Figure, ...]
    answers: Mapping[str, Answering]
    causes: Mapping[str, Cause] = field(default_factory=dict)

    @property
    def needs_paper_size(self) -> bool:
        """Whether only trainings of the paper's size decide these claims."""
        return any(figure.needs_paper_size for figure in self.figures)


def at(**setting: object) -> Rows:
    """Rows of the setting that claims are about; columns that a frame lacks do not matter."""

    def rows(frame: pl.DataFrame) -> pl.DataFrame:
        known = {name: value for name, value in setting.items() if name in frame.columns}
        return frame.filter(**known) if known else frame

    return rows


class Answers(NamedTuple):
    """Answers to claims by the frames of figures.

    Attributes
    ----------
    by_claim
        Our values.
    missing
        Claim -> the rows that the frames lack for it.
    failed
        Claim -> the error that its answer raised on rows of other code.
    """

    by_claim: dict[str, Answer]
    missing: dict[str, str]
    failed: dict[str, str]


def answers_of(
    figures: Iterable[Figure | JointClaims],
    frames: Mapping[str, pl.DataFrame],
    *,
    same_code: bool = True,
) -> Answers:
    """Answer claims by the rows at the paper's setting; `frames` are by figures' ids.

    An answer that raises an error is wrong, and its error is raised. Only where other code than
    this has made the frames is an error that lacking rows may cause kept in `Answers.failed`.
    """
    answers = Answers({}, {}, {})
    for source in figures:
        ids = ", ".join(figure.id for figure in source.figures)
        absent = [figure.id for figure in source.figures if figure.id not in frames]
        for claim, answer in source.answers.items():
            if absent:
                answers.missing[claim] = f"no rows of {', '.join(absent)}"
                continue
            try:
                rows = [figure.at_paper(frames[figure.id]) for figure in source.figures]
                if any(frame.is_empty() for frame in rows):
                    answers.missing[claim] = f"no rows of {ids} at the paper's setting"
                elif (value := answer(*rows)) is None:
                    answers.missing[claim] = f"no rows of {ids} that answer it"
                else:
                    answers.by_claim[claim] = value
            except (LookupError, ValueError, pl.exceptions.PolarsError) as error:
                if same_code:
                    raise
                first_line = str(error).partition("\n")[0]
                answers.failed[claim] = f"{type(error).__name__}: {first_line}"
    return answers
