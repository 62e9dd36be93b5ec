"""The one table of notebook parameters: what each is called, may be, and means.

`workbench reproduce -p name=value` checks every value against this table before anything runs.
A notebook may have parameters of its own that the table does not know; those are held to the type
of their default.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from workbench.names import check_name

Value = bool | int | float | str

SCALES = {
    "smoke": "seconds: the smallest sizes that still run every line; for tests",
    "default": "minutes on a laptop: the shapes of the paper's results",
    "paper": "the paper's own sizes: hours, or a cluster",
}

DATASETS = ("digits", "mnist", "fashion_mnist", "cifar10")

DRIVER_PARAMETER = "output"
"""Where a notebook keeps its results; `workbench reproduce` alone sets it."""

_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


@dataclass(frozen=True)
class Parameter:
    """One parameter: its type, its range, what it means.

    Parameters
    ----------
    name
        As it stands in the notebook's cell.
    kind
        `bool`, `int`, `float` or `str`.
    help
        One line for the user.
    unit
        Of numbers, in words: ``"Mbit/s"``.
    low, high
        The valid range of numbers; `high` belongs to it, `low` too unless `above` is set.
    above
        Whether `low` itself is refused.
    options
        Gives every valid word, if only some are; called when needed, so that a registry is only
        imported then.
    file_suffix
        Of files whose path is valid beside `options`: ``".npz"``.
    """

    name: str
    kind: type[bool] | type[int] | type[float] | type[str]
    help: str
    unit: str = ""
    low: float = -math.inf
    high: float = math.inf
    above: bool = False
    options: Callable[[], Iterable[str]] | None = None
    file_suffix: str = ""

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ValueError(f"{self.name}: the range {self.low:g} to {self.high:g} is empty")

    @property
    def allowed(self) -> str:
        """What a value may be, in words: ``"a whole number from 1 to 1024"``."""
        if self.options is not None:
            words = ", ".join(self.options())
            return f"one of {words}" + (
                f", or the path of a {self.file_suffix} file" if self.file_suffix else ""
            )
        low, high = _number(self.low), _number(self.high)
        bounds = []
        if math.isfinite(self.low):
            bounds.append(f"above {low}" if self.above else f"from {low}")
        if math.isfinite(self.high):
            bounds.append(f"{'and up ' if self.above else ''}to {high}")
        unit = f" ({self.unit})" if self.unit else ""
        return " ".join([_KINDS[self.kind], *bounds]) + unit

    def parse(self, text: str) -> Value:
        """Return the value that `text` writes.

        Raises
        ------
        ValueError
            `text` writes no value of this kind, or one out of range.
        """
        text = text.strip()
        if self.kind is str:
            return self._word(text)
        if self.kind is bool:
            if text.lower() not in ("true", "false"):
                raise ValueError(f"{self.name}={text}: must be {self.allowed}")
            return text.lower() == "true"
        return self._within(self._read_number(text), text)

    def default(self, value: object) -> Value:
        """Return a default from a notebook as it is, a whole number as a float where due.

        Raises
        ------
        ValueError
            `value` has another type.
        """
        if self.kind is float and type(value) is int:
            return float(value)
        if not isinstance(value, self.kind) or (self.kind is int and isinstance(value, bool)):
            raise ValueError(f"the default {self.name}={value!r} must be {_KINDS[self.kind]}")
        return value

    def _read_number(self, text: str) -> int | float:
        pattern = r"[+-]?\d{1,18}" if self.kind is int else r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?"
        if re.fullmatch(pattern, text, re.ASCII | re.IGNORECASE) is None:
            raise ValueError(f"{self.name}={text}: must be {self.allowed}")
        return int(text) if self.kind is int else float(text)

    def _within(self, value: bool | int | float, text: str) -> Value:
        low = value > self.low if self.above else value >= self.low
        if not (math.isfinite(value) and low and value <= self.high):
            raise ValueError(f"{self.name}={text}: must be {self.allowed}")
        return value

    def _word(self, text: str) -> str:
        if self.options is None:
            return text
        known = list(self.options())
        if self.file_suffix and text.endswith(self.file_suffix):
            file = Path(text).expanduser()
            if not file.is_file():
                raise ValueError(f"{self.name}={text}: there is no such file")
            return str(file.resolve())  # notebooks run in a folder of their own
        if text not in known and self.file_suffix:
            known.append(f"PATH{self.file_suffix}")
        return check_name(self.name, text, known)


def _models() -> Iterable[str]:
    from workbench.zoo import MODELS

    return list(MODELS)


def _planners() -> Iterable[str]:
    from workbench.dynacomm import PLANNERS

    return list(PLANNERS)


PARAMETERS: dict[str, Parameter] = {
    parameter.name: parameter
    for parameter in (
        Parameter("scale", str, "how large the experiments are", options=lambda: SCALES),
        Parameter("seed", int, "of every random choice", low=0, high=2**32 - 1),
        Parameter(
            "bandwidth_mbps", float, "of a worker's link", "Mbit/s", low=0, high=1e7, above=True
        ),
        Parameter("batch_size", int, "of one worker", "samples", low=1, high=65536),
        Parameter(
            "device_edge_mbps",
            float,
            "between a device and the edge server",
            "Mbit/s",
            low=0,
            high=1e7,
            above=True,
        ),
        Parameter(
            "edge_cloud_mbps",
            float,
            "between the edge server and the cloud",
            "Mbit/s",
            low=0,
            high=1e7,
            above=True,
        ),
        Parameter("edge_cores", int, "of the edge server, as the paper counts", low=1, high=4),
        Parameter("devices", int, "that share the edge server", low=1, high=1024),
        Parameter("workers", int, "how many train together", low=1, high=1024),
        Parameter("platforms", int, "how many gossip with each other", low=2, high=64),
        Parameter("imbalance", float, "how many times slower slow platforms are", low=1, high=1000),
        Parameter("aggregation_ratio", float, "points for each aggregated one", low=1, high=1000),
        Parameter("load", float, "share of all cores that co-runners use", low=0, high=1),
        Parameter("overhead_ms", float, "of starting one transfer", "ms", low=0, high=60_000),
        Parameter("model", str, "which network of the zoo is trained", options=_models),
        Parameter("planner", str, "who decides when to send what", options=_planners),
        Parameter(
            "dataset",
            str,
            "what is learnt from; auto: what the experiment itself chooses",
            options=lambda: ("auto", *DATASETS),
            file_suffix=".npz",
        ),
    )
}


def parse(name: str, text: str, known: Mapping[str, Parameter] = PARAMETERS) -> Value:
    """Return the value that the user wrote for a parameter.

    Parameters
    ----------
    name, text
        As given: ``batch_size``, ``32``.
    known
        The valid parameters; by default the whole table.

    Raises
    ------
    ValueError
        No such parameter (the message names the nearest and lists all with their ranges), or no
        such value (the message says what is allowed).
    """
    if name == DRIVER_PARAMETER:
        raise ValueError(
            f"parameter {name!r} is set by `workbench reproduce` itself; "
            "use --output DIR to choose where results go"
        )
    if name not in known:
        raise ValueError(_unknown(name, known))
    return known[name].parse(text)


def own(name: str, default: object) -> Parameter:
    """Return what may stand for a notebook's parameter: the table's entry, or its default's type.

    Raises
    ------
    ValueError
        The default is of a type that the command line cannot write.
    """
    if name in PARAMETERS:
        return PARAMETERS[name]
    for kind in (bool, int, float, str):
        if type(default) is kind:
            return Parameter(name, kind, "of this notebook alone")
    raise ValueError(
        f"parameter {name!r} has the default {default!r}; "
        "a notebook's parameter must be a bool, int, float or str"
    )


def listing(known: Mapping[str, Parameter] = PARAMETERS) -> str:
    """Return one line per parameter: name, what is allowed, what it means."""
    width = max((len(name) for name in known), default=0)
    lines = [f"  {name:<{width}}  {one.allowed}; {one.help}" for name, one in known.items()]
    return "\n".join(lines)


def _unknown(name: str, known: Mapping[str, Parameter]) -> str:
    try:
        check_name("parameter", name, known)
    except ValueError as error:
        nearest = str(error).partition(" Known:")[0]
    if not known:
        return f"{nearest} There are none to set"
    return f"{nearest} Valid parameters:\n{listing(known)}"


def _number(value: float) -> str:
    return str(int(value)) if math.isfinite(value) and value == int(value) else f"{value:g}"
