"""Back-propagation by a scan, in arithmetic: what many nodes do one after the other.

``python benchmarks/olpb_scan.py`` prints FLOPs of products of Jacobians on the critical path, by
nodes, and how many times fewer than back-propagation's those are. There is no bar: wide networks
never gain, and a recurrent one does from about a node for each hidden unit.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from workbench.olpb.algorithms.gradients import scan_gradients
from workbench.olpb.algorithms.scans import SCANS
from workbench.zoo import build

NODES = (4, 16, 64)


def main() -> int:
    Console(width=180).print(arithmetic())
    return 0


def arithmetic() -> Table:
    table = Table("network", "unit", "groups", "nonzeros", title="FLOPs on the critical path")
    columns = [("one node", "hillis_steele", 1)]
    columns += [(f"{scan}, {b}", scan, b) for scan in SCANS for b in NODES]
    for name, _, _ in columns:
        table.add_column(name, justify="right")
    for name, unit, module, x, y in examples():
        found = [
            scan_gradients(module, x, y, unit, levels=1, scan=scan, nodes=nodes)
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
    for unit in ("matrix_layer", "operator"):
        yield "LeNet-5", unit, build("lenet5", "cpu"), image, torch.tensor([3])
    for hidden in (2, 8):
        steps = torch.randn(1, 128, 2)
        yield f"RNN, 128 steps of {hidden}", "matrix_layer", Cells(hidden), steps, torch.tensor([1])


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


if __name__ == "__main__":
    sys.exit(main())
