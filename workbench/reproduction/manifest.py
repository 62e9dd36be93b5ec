"""What lies beside every stored result: what it is, and what made it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.reproduction.provenance import digest

NAME = "manifest.json"
FORMAT = 5


class OtherVersionError(ValueError):
    """A manifest was written by another version of the workbench."""


@dataclass(frozen=True)
class Manifest:
    """Provenance of the results of a notebook, or of a figure that was recorded.

    Attributes
    ----------
    of, system
        ``"01_dynacomm"`` or ``"fig10"``, and ``"dynacomm"``.
    arguments
        Every parameter with its value.
    made_at, seconds
        When it was finished (UTC, ISO 8601), and the seconds that it took, over all its runs if it
        was stopped.
    revision, dirty
        Git's revision, and whether the working tree differed from it; None outside git.
    versions
        Of Python and the packages that numbers and figures depend on.
    instruction_set
        Of each numerical library; see `workbench.utils.instruction_set.record`.
    machine
        Its processor, cores, memory and operating system.
    outputs
        SHA-256 of each file, by its path beside the manifest.
    data
        SHA-256 of the images and labels of each data set that was asked for, by name or path.
    seeds
        Seeds that the rows hold.
    learns
        Whether the rows of a recording say how well a model was trained.
    processes
        Processes that computed points (None: one a core).
    extended_at
        A later revision, whose code computed some of the rows again or added seeds.
    """

    of: str
    system: str
    arguments: Mapping[str, Any]
    made_at: str
    seconds: float
    revision: str | None
    dirty: bool | None
    versions: Mapping[str, str]
    instruction_set: Mapping[str, str]
    machine: Mapping[str, str]
    outputs: Mapping[str, str]
    data: Mapping[str, str] = field(default_factory=dict)
    seeds: Sequence[int] = ()
    learns: bool = False
    processes: int | None = None
    extended_at: str | None = None

    def made_by(self, revision: str | None) -> bool:
        """Whether the code of this commit made the results, without changes."""
        return revision is not None and self.revision == revision and self.dirty is False

    @property
    def scale(self) -> str | None:
        """The scale it ran at; None for a notebook without scales."""
        scale = self.arguments.get("scale")
        return None if scale is None else str(scale)

    def altered(self, folder: Path) -> list[str]:
        """Return the outputs in `folder` that are missing or were changed after the run."""
        return [name for name, sha in self.outputs.items() if file_digest(folder / name) != sha]

    def to_json(self) -> str:
        """Return readable JSON, ending in a newline, with a SHA-256 of what it says."""
        return sealed({"format": FORMAT, **dataclasses.asdict(self)})

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Return the manifest in a folder; FileNotFoundError if there is none.

        Raises `OtherVersionError` if it is of another format, and ValueError if it is damaged.
        """
        try:
            text = (folder / NAME).read_text(encoding="utf-8")
            if json.loads(text).get("format") != FORMAT:
                raise OtherVersionError(f"{folder / NAME} is of another version of the workbench")
            fields = unsealed(text)
            del fields["format"]
            return cls(**fields)
        except FileNotFoundError:
            raise
        except (OSError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"{folder / NAME}: {error}") from error


def sealed(content: Mapping[str, Any], default: Callable[[Any], Any] | None = None) -> str:
    """Return readable JSON with a SHA-256 of what it says; `default` is as for `json.dumps`."""
    plain = json.loads(json.dumps(content, default=default))
    return json.dumps(plain | {"sha256": digest(plain)}, indent=2) + "\n"


def unsealed(text: str) -> dict[str, Any]:
    """Return what `sealed` was given; ValueError if a letter of it has changed."""
    content = json.loads(text)
    if not isinstance(content, dict) or content.pop("sha256", None) != digest(content):
        raise ValueError("the file is no longer what was written")
    return content


def file_digest(path: Path) -> str | None:
    """Return a file's SHA-256 in hexadecimal; None if there is no such file."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (FileNotFoundError, IsADirectoryError):
        return None
