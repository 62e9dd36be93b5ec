"""Back-propagation by a scan: time on this machine for a chain, arithmetic on many for networks.

``python benchmarks/olpb_scan.py [steps]`` prints milliseconds of the backward pass of a recurrent
chain, the fastest of five, for 10,000 steps by default: step by step, by our scan and by PyTorch's
own, and how many times faster than autograd each is. Then it prints FLOPs of products of Jacobians
on the critical path, by nodes, and how many times fewer than back-propagation's those are. There is
no bar: which one wins depends on the hidden size, the samples and the processor.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from workbench.olpb.algorithms.chain import chain_gradients
from workbench.olpb.algorithms.gradients import scan_gradients
from workbench.olpb.algorithms.schedules import ALGORITHMS
from workbench.zoo import build

STEPS = 10_000
SIZES = ((1, 4), (1, 8), (1, 20), (4, 8), (16, 20), (1, 64))  # samples, hidden units
REPEATS = 5
NODES = (4, 16, 64)


def main(steps: int) -> int:
    table = Table("samples", "hidden", title=f"Backward pass of {steps:,} steps, ms (times faster)")
    ways: Mapping[str, Callable[[nn.RNN, Tensor], Callable[[], object]]] = {
        "autograd": autograd,
        "step by step": lambda rnn, x: ours(rnn, x, "sequential"),
        "our scan": lambda rnn, x: ours(rnn, x, "scan"),
        "torch's scan": theirs,
    }
    for name in ways:
        table.add_column(name, justify="right")
    console = Console(width=180)
    for samples, hidden in SIZES:
        torch.manual_seed(1)
        rnn, x = nn.RNN(4, hidden), torch.randn(steps, samples, 4)
        took_ms: dict[str, float | None] = {}
        for name, way in ways.items():
            try:
                took_ms[name] = fastest_ms(way(rnn, x))
            except Exception as error:  # another way's failure is a row, not the end
                console.print(f"{name} fails: {type(error).__name__}: {str(error)[:300]}")
                took_ms[name] = None
        base = took_ms["autograd"]
        cells = [
            "-" if one is None or base is None else f"{one:.1f} ({base / one:.2f})"
            for one in took_ms.values()
        ]
        table.add_row(str(samples), str(hidden), *cells)
    console.print(table)
    console.print(arithmetic())
    return 0


def arithmetic() -> Table:
    table = Table("network", "unit", "groups", "nonzeros", title="FLOPs on the critical path")
    columns = [("one node", "hillis_steele", 1)]
    columns += [(f"{scan}, {b}", scan, b) for scan in ALGORITHMS for b in NODES]
    for name, _, _ in columns:
        table.add_column(name, justify="right")
    for name, unit, module, x, y in examples():
        found = [
            scan_gradients(module, x, y, unit, level=1, scan=scan, nodes=nodes)
            for _, scan, nodes in columns
        ]
        groups = found[0].groups
        entries = sum(group.nonzeros for group in groups)
        base = found[0].critical_flops
        cells = [f"{one.critical_flops:,} ({base / one.critical_flops:.2g})" for one in found]
        table.add_row(name, unit, f"{len(groups)}", f"{entries:,}", *cells)
    return table


def examples() -> Iterator[tuple[str, str, nn.Module, Tensor, Tensor]]:
    torch.manual_seed(1)
    image = torch.randn(1, 1, 28, 28)
    for unit in ("layer", "operator"):
        yield "LeNet-5", unit, build("lenet5", "cpu"), image, torch.tensor([3])
    for hidden in (2, 8):
        steps = torch.randn(1, 128, 2)
        yield f"RNN, 128 steps of {hidden}", "layer", Cells(hidden), steps, torch.tensor([1])


class Cells(nn.Module):
    """A recurrent cell, step by step."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.cell, self.head = nn.RNNCell(2, hidden), nn.Linear(hidden, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Scores after the last of the steps, of shape (samples, steps, 2)."""
        state = torch.zeros(len(x), self.cell.hidden_size, dtype=x.dtype)
        for step in x.unbind(1):
            state = self.cell(step, state)
        found: Tensor = self.head(state)
        return found


def fastest_ms(run: Callable[[], object]) -> float:
    run()
    took: list[float] = []
    for _ in range(REPEATS):
        started_s = time.perf_counter()
        run()
        took.append(1e3 * (time.perf_counter() - started_s))
    return min(took)


def last_squared(states: Tensor) -> Tensor:
    return states[-1].square().sum()


def autograd(rnn: nn.RNN, x: Tensor) -> Callable[[], object]:
    """The backward pass alone, again and again over one graph."""
    value = last_squared(rnn(x)[0])
    parameters = list(rnn.parameters())
    return lambda: torch.autograd.grad(value, parameters, retain_graph=True)


def ours(rnn: nn.RNN, x: Tensor, backward: str) -> Callable[[], object]:
    """The same work: `chain_gradients` with its forward pass already made."""
    with torch.no_grad():
        states = rnn(x)[0]

    class Ready(nn.RNN):
        def forward(self, *_: object) -> tuple[Tensor, None]:  # type: ignore[override]
            return states, None

    ready = Ready(rnn.input_size, rnn.hidden_size)
    ready.load_state_dict(rnn.state_dict())
    return lambda: chain_gradients(ready, x, last_squared, backward)


def theirs(rnn: nn.RNN, x: Tensor) -> Callable[[], object]:
    """The scan of the same affine maps alone, by an operator that PyTorch has as a prototype."""
    from torch._higher_order_ops.associative_scan import associative_scan

    with torch.no_grad():
        states = rnn(x)[0]
        slopes = (1 - states.square()).flip(0)
        matrices = rnn.weight_hh_l0.T * slopes.unsqueeze(-2)
    added = torch.zeros(*states.shape, 1)
    added[0] = 2 * states[-1].unsqueeze(-1)

    def combine(left: tuple[Tensor, Tensor], right: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return right[0] @ left[0], right[0] @ left[1] + right[1]

    def run() -> object:
        with torch.no_grad():
            return associative_scan(combine, (matrices, added), dim=0, combine_mode="generic")

    return run


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else STEPS))
