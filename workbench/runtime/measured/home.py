"""What programs share with whoever runs them: how it comes back from their processes.

In a simulation all programs and the caller work on the same objects. A process has copies; so the
caller says which objects a node's program owns, which are brought back as it left them, and on
which all only call methods, whose calls are noted and made when the run has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from workbench.runtime.measured import packing
from workbench.runtime.messages import Message
from workbench.runtime.threads import Synchronized


class Note(NamedTuple):
    """A call that a program made: of which object's method, with what, pickled."""

    at_s: float
    which: int
    method: str
    arguments: bytes


@dataclass(frozen=True)
class Home:
    """Objects of the caller that its programs hold.

    Attributes
    ----------
    owned
        By node, what its program changes: brought back when it has ended.
    noted
        What all programs call methods of, which return nothing: called in the order of the clock
        when the run has ended. They are given messages without their payload.
    constant
        What nobody changes: it does not travel back.
    tries
        By node, what its process tries out before the run begins, since work takes longer when it
        is done first; it leaves everything as it was.
    """

    owned: Mapping[int, Sequence[Any]] = field(default_factory=dict)
    noted: Sequence[Any] = ()
    constant: Sequence[Any] = ()
    tries: Mapping[int, Callable[[], object]] = field(default_factory=dict)

    def pack(self, node: int, program: Any) -> bytes:
        """A program, with what it owns."""
        names = {id(each): ("noted", place) for place, each in enumerate(self.noted)}
        owned = list(self.owned.get(node, ()))
        whole = program, owned, list(self.constant), self.tries.get(node)
        return packing.dumps(whole, names)

    def take_back(self, node: int, owned: bytes) -> None:
        """Let what a node owns be as its program left it."""
        known = {"noted": self.noted, "constant": self.constant}

        def named(name: packing.Name) -> Any:
            kind, place, *method = name
            each = known[kind][place]
            return getattr(each, method[0]) if method else each

        copies = packing.loads(owned, named)
        for each, copy in zip(self.owned.get(node, ()), copies, strict=True):
            _become(each, copy)

    def call(self, notes: Sequence[Note]) -> None:
        """Make the calls that were noted."""
        for note in sorted(notes, key=lambda note: note.at_s):
            method = getattr(self.noted[note.which], note.method)
            arguments, named = packing.loads(note.arguments)
            method(*arguments, **named)


class Away:
    """A program and what it owns, in its process."""

    def __init__(self, packed: bytes, clock: Callable[[], float]) -> None:
        self.notes: list[Note] = []
        self._clock = clock
        self._noted: dict[int, _Noted] = {}
        self.program, self._owned, self._constant, self.trial = packing.loads(packed, self._found)

    def _found(self, name: packing.Name) -> Any:
        _, which, *method = name
        if which not in self._noted:
            self._noted[which] = _Noted(which, self.notes.append, self._clock)
        return getattr(self._noted[which], method[0]) if method else self._noted[which]

    def pack(self) -> bytes:
        """What the program owns, as it left it."""
        names: dict[int, packing.Name] = {}
        for which, noted in self._noted.items():
            names[id(noted)] = ("noted", which)
            names |= {id(call): ("noted", which, name) for name, call in noted.methods.items()}
        names |= {id(each): ("constant", place) for place, each in enumerate(self._constant)}
        return packing.dumps(self._owned, names)


class _Noted:
    """Stands for an object of the caller's."""

    def __init__(
        self, which: int, note: Callable[[Note], None], clock: Callable[[], float]
    ) -> None:
        self._which, self._note, self._clock = which, note, clock
        self.methods: dict[str, Callable[..., None]] = {}

    def __getattr__(self, method: str) -> Callable[..., None]:
        if method.startswith("__"):
            raise AttributeError(method)

        def call(*arguments: Any, **named: Any) -> None:
            given = packing.dumps((tuple(map(_without_payload, arguments)), named))
            self._note(Note(self._clock(), self._which, method, given))

        return self.methods.setdefault(method, call)


def _without_payload(value: Any) -> Any:
    return replace(value, payload=None) if isinstance(value, Message) else value


def _become(each: Any, copy: Any) -> None:
    if isinstance(each, Synchronized):
        _become(each.value, copy.value)
    elif isinstance(each, list):
        each[:] = copy
    else:
        vars(each).update(vars(copy))
