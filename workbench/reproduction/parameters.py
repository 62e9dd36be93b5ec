"""Parameters of notebooks and explorers: names, valid values, meaning.

Those that several notebooks have are declared here, once. A system declares its own in the
`Setting` of its explorer, from which sliders, checks and help follow. `workbench reproduce
-p name=value` checks every value before anything runs; an undeclared parameter has the type of its
default.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Self, get_args, get_origin, get_type_hints

from workbench.utils.checks import UserError, check_comma, check_name, unknown
from workbench.utils.files import expanded

Value = bool | int | float | str

SCALES = {
    "smoke": "seconds: the smallest sizes that still run every line; for tests",
    "default": "minutes on a laptop: the shapes of the paper's results",
    "paper": "the paper's own sizes: hours, or a cluster",
}

TRAININGS = ("one", "all")

DATASETS = ("digits", "cluttered_digits", "mnist", "fashion_mnist", "cifar10", "cifar10_10k")

DRIVER_PARAMETER = "output"
"""Where a notebook keeps its results; `workbench reproduce` alone sets it."""

_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


@dataclass(frozen=True)
class Parameter:
    """Valid values of a parameter, and what it means.

    Attributes
    ----------
    help
        One line for the user.
    unit
        Of numbers: ``"Mbit/s"``.
    low, high
        The valid range of numbers; `high` belongs to it, `low` too unless `above` is set.
    options
        Returns every valid name, if only some are; called when needed, so that a registry is only
        imported then.
    file_suffix
        Of files whose path is valid beside `options`: ``".npz"``.
    name, kind
        Filled in by `declared` from the annotation that holds the parameter.
    """

    help: str
    unit: str = ""
    low: float = -math.inf
    high: float = math.inf
    above: bool = False
    options: Callable[[], Iterable[str]] | None = None
    file_suffix: str = ""
    name: str = ""
    kind: type[bool] | type[int] | type[float] | type[str] = str

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise UserError(f"{self.name}: the range {self.low:g} to {self.high:g} is empty")

    def among(self, options: Callable[[], Iterable[str]]) -> Parameter:
        """Return the same parameter with these names as its valid ones."""
        return replace(self, options=options)

    @property
    def allowed(self) -> str:
        """Valid values: ``"a whole number from 1 to 1024"``."""
        if self.options is not None:
            return f"one of {', '.join(self.options())}" + (
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
        """Return the value that `text` writes; see `check`."""
        text = text.strip()
        if self.kind is str:
            return self.check(text)
        if self.kind is bool:
            if text.lower() not in ("true", "false"):
                raise UserError(f"{self.name}={text}: must be {self.allowed}")
            return text.lower() == "true"
        return self.check(self._read_number(text), text)

    def check(self, value: object, text: str = "") -> Value:
        """Return a valid value as it is, a whole number as a float where due.

        `text` is the user's spelling of it, for the error.

        Raises ValueError: `value` is of another kind, or out of range, or no valid name.
        """
        text = text or repr(value)
        if self.kind is float and type(value) is int:
            value = float(value)
        if isinstance(value, str) and self.kind is str:
            return self._name(value)
        if isinstance(value, bool):
            if self.kind is bool:
                return value
        elif isinstance(value, int | float) and isinstance(value, self.kind) and self._holds(value):
            return value
        raise UserError(f"{self.name}={text}: must be {self.allowed}")

    def _holds(self, number: float) -> bool:
        over = number > self.low if self.above else number >= self.low
        return math.isfinite(number) and over and number <= self.high

    def _read_number(self, text: str) -> int | float:
        if self.kind is float:
            check_comma(self.name, text)
        pattern = r"[+-]?\d{1,18}" if self.kind is int else r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?"
        if re.fullmatch(pattern, text, re.ASCII | re.IGNORECASE) is None:
            raise UserError(f"{self.name}={text}: must be {self.allowed}")
        return int(text) if self.kind is int else float(text)

    def _name(self, text: str) -> str:
        if self.options is None:
            return text
        known = list(self.options())
        if self.file_suffix and text.endswith(self.file_suffix):
            file = expanded(text)
            if not file.is_file():
                raise UserError(f"{self.name}={text}: there is no such file")
            return str(file.resolve())  # notebooks run in a folder of their own
        if text not in known and self.file_suffix:
            known.append(f"PATH{self.file_suffix}")
        return check_name(self.name, text, known)


def _models() -> Iterable[str]:
    from workbench.zoo import MODELS

    return list(MODELS)


def annotated(where: type) -> dict[str, tuple[Any, list[Any]]]:
    """Return each annotation of a class: its type, and what ``Annotated`` adds to it."""
    kinds = {}
    # Without names of the class's own: functions in an annotation are to see their module.
    for name, hint in get_type_hints(where, localns={}, include_extras=True).items():
        kind, *extras = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        kinds[name] = kind, extras
    return kinds


def declared(where: type) -> dict[str, Parameter]:
    """Return the parameters that a class's annotations declare, by name.

    ``devices: Annotated[int, Parameter("that share the edge server", low=1)]`` declares one; a
    name without a `Parameter` is the shared one, with the same type.
    """
    parameters = {}
    for name, (kind, extras) in annotated(where).items():
        parameter = next((extra for extra in extras if isinstance(extra, Parameter)), None)
        if parameter is None:
            parameter = PARAMETERS.get(name)
            if parameter is None or parameter.kind is not kind:
                raise TypeError(f"{where.__name__}.{name}: {kind.__name__} has no Parameter")
        parameters[name] = replace(parameter, name=name, kind=kind)
    return parameters


class _Shared:
    """Parameters of several notebooks."""

    scale: Annotated[str, Parameter("how large the experiments are", options=lambda: SCALES)]
    seed: Annotated[int, Parameter("of every random choice", low=0, high=2**32 - 1)]
    bandwidth_mbps: Annotated[
        float, Parameter("of a worker's link", "Mbit/s", low=0, high=1e7, above=True)
    ]
    batch_size: Annotated[int, Parameter("of one worker", "samples", low=1, high=65536)]
    workers: Annotated[int, Parameter("how many train together", low=1, high=1024)]
    epochs: Annotated[int, Parameter("of training, by default the scale's", low=1)]
    overhead_ms: Annotated[float, Parameter("of starting one transfer", "ms", low=0, high=60_000)]
    model: Annotated[str, Parameter("which network of the zoo is trained", options=_models)]
    planner: Annotated[str, Parameter("which algorithm makes the plan")]
    dataset: Annotated[
        str,
        Parameter(
            "what is learnt from; auto: digits, cluttered_digits or the paper's own, by scale",
            options=lambda: ("auto", *DATASETS),
            file_suffix=".npz",
        ),
    ]
    trainings: Annotated[
        str,
        Parameter(
            "what trains here: one experiment of a system, others are shown as recorded; or all",
            options=lambda: TRAININGS,
        ),
    ]


PARAMETERS = declared(_Shared)


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """A value for each parameter that a subclass declares; wrong ones are refused."""

    def __post_init__(self) -> None:
        for name, parameter in declared(type(self)).items():
            object.__setattr__(self, name, parameter.check(getattr(self, name)))

    @classmethod
    def of(cls, variables: Mapping[str, object]) -> Self:
        """Take each value from the variable of its name: ``Setting.of(globals())``.

        Raises ValueError: a variable is missing, or its value is not valid.
        """
        names = [field.name for field in fields(cls)]
        missing = ", ".join(name for name in names if name not in variables)
        if missing:
            raise UserError(f"no value for {missing}; the parameters are {', '.join(names)}")
        return cls(**{name: variables[name] for name in names})


def check_known(name: str, known: Collection[Parameter]) -> None:
    """Refuse the name of a parameter that cannot be set; the message lists those that can."""
    if name == DRIVER_PARAMETER:
        raise UserError(
            f"parameter {name!r} is set by the workbench itself; "
            "use --output DIR to choose where results go"
        )
    names = [parameter.name for parameter in known]
    if name not in names:
        valid = f"Valid parameters:\n{listing(known)}" if known else "There are none to set"
        raise UserError(unknown("parameter", name, names, valid))


def own(name: str, default: object, known: Mapping[str, Parameter] = PARAMETERS) -> Parameter:
    """Return the known parameter of this name, or one of its default's type."""
    if name in known:
        return known[name]
    for kind in (bool, int, float, str):
        if type(default) is kind:
            return Parameter("of this notebook alone", name=name, kind=kind)
    raise UserError(
        f"parameter {name!r} has the default {default!r}; "
        "a notebook's parameter must be a bool, int, float or str"
    )


def listing(known: Collection[Parameter]) -> str:
    """Return one line per parameter: name, valid values, meaning."""
    width = max((len(parameter.name) for parameter in known), default=0)
    return "\n".join(
        f"  {parameter.name:<{width}}  {parameter.allowed}; {parameter.help}" for parameter in known
    )


def _number(value: float) -> str:
    return str(int(value)) if math.isfinite(value) and value == int(value) else f"{value:g}"
