"""Small modules of many kinds, as users write them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

WIDTH = 4


class Autoencoder(nn.Module):
    """Decodes with the encoder's weights."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(6, 3)
        self.bias = nn.Parameter(torch.zeros(6))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(torch.tanh(self.encoder(x)), self.encoder.weight.t(), self.bias)


class Siamese(nn.Module):
    """Runs two inputs through the same two layers, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.head = nn.Linear(8, 1)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        both = [self.second(torch.relu(self.first(part))) for part in (x, y)]
        out: Tensor = self.head(torch.cat(both, 1))
        return out


class Functional(nn.Module):
    """Holds parameters of its own, one of them idle."""

    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.zeros(1, 1, 4))
        self.position = nn.Parameter(torch.zeros(1, 6, 4))
        self.weight = nn.Parameter(torch.zeros(4, 4))
        self.unused = nn.Linear(2, 2)
        self.head = nn.Linear(4, 2)
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.position
        out: Tensor = self.head(F.linear(x, self.weight) * self.scale)
        return out


class Language(nn.Module):
    """Tokens, a recurrence, and an output tied to the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 4)
        self.lstm = nn.LSTM(4, 4, 2, batch_first=True)
        self.out = nn.Linear(4, 10)
        self.out.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        hidden, _ = self.lstm(self.embedding(tokens))
        out: Tensor = self.out(hidden)
        return out


class TwoInputs(nn.Module):
    """Two branches of equal depth on two inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right, self.out = nn.Linear(3, 5), nn.Linear(4, 5), nn.Linear(5, 1)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        out: Tensor = self.out(self.left(x) + self.right(y))
        return out


class DataDependent(nn.Module):
    """Chooses a branch by the numbers it sees: always the left one."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.left, self.right = nn.Linear(4, 4), nn.Linear(4, 4)
        self.head = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.stem(x))
        x = self.left(x) if float(x.detach().square().sum()) >= 0 else self.right(x)
        out: Tensor = self.head(x)
        return out


@dataclass(frozen=True)
class Step:
    """One node of a random graph: an operation on earlier nodes."""

    kind: str
    inputs: tuple[int, ...]
    tied_to: int | None = None  # an earlier step whose weights it uses


class RandomGraph(nn.Module):
    """A random graph on vectors of width four; node 0 is the input."""

    def __init__(self, steps: list[Step]) -> None:
        super().__init__()
        self.steps = steps
        self.parts = nn.ModuleDict()
        for index, step in enumerate(steps, start=1):
            if step.kind in {"linear", "functional"}:
                self.parts[str(index)] = nn.Linear(WIDTH, WIDTH, bias=index % 2 == 0)
            elif step.kind == "join":
                self.parts[str(index)] = nn.Linear(WIDTH * len(step.inputs), WIDTH)
            elif step.kind == "norm":
                self.parts[str(index)] = nn.BatchNorm1d(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        made = [x]
        for index, step in enumerate(self.steps, start=1):
            made.append(self._run(index, step, [made[i] for i in step.inputs]))
        return torch.stack(made[1:]).sum(0)

    def _run(self, index: int, step: Step, inputs: list[Tensor]) -> Tensor:
        if step.kind == "add":
            return torch.relu(torch.stack(inputs).sum(0))
        if step.kind == "join":
            inputs = [torch.cat(inputs, 1)]
        part = self.parts[str(step.tied_to or index)]
        if step.kind == "functional":
            assert isinstance(part, nn.Linear)
            return F.linear(inputs[0], part.weight, part.bias)
        out: Tensor = part(inputs[0])
        return out

    def depth(self) -> int:
        """Longest path, counted in linear layers that do not use another's weights."""
        depths = [0]
        for step in self.steps:
            deepest = max(depths[i] for i in step.inputs)
            own = step.kind in {"linear", "functional", "join"}
            home = max(depths[step.tied_to], 1) if step.tied_to else 0
            depths.append(max(deepest + own, home))
        return max(1, *depths)

    @classmethod
    def draw(cls, data: st.DataObject) -> RandomGraph:
        """Draw a graph of up to nine steps, at least one of which has weights."""
        steps = [Step("linear", (0,))]
        for index in range(2, 2 + data.draw(st.integers(0, 8), label="steps")):
            kinds = ["linear", "functional", "join", "norm", "add", "tied"]
            kind = data.draw(st.sampled_from(kinds), label=f"kind {index}")
            count = data.draw(st.integers(1, 3)) if kind in {"join", "add"} else 1
            inputs = tuple(data.draw(st.integers(0, index - 1)) for _ in range(count))
            weighted = [i for i, s in enumerate(steps, 1) if s.kind in {"linear", "functional"}]
            tied_to = data.draw(st.sampled_from(weighted)) if kind == "tied" else None
            steps.append(Step(kind, inputs, tied_to))
        return cls(steps)
