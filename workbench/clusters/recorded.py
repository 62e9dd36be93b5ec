"""Recorded traces of a capacity, as files hold them."""

from __future__ import annotations

import csv
from pathlib import Path

from workbench.errors import UserError


def read_pairs(path: Path) -> list[tuple[float, float]]:
    """Read two columns of numbers; a first row of which neither cell is a number is a heading.

    Empty lines and a byte order mark are ignored. Errors name the line.
    """
    pairs: list[tuple[float, float]] = []
    first = True
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            for line, row in enumerate(csv.reader(file), start=1):
                if not any(cell.strip() for cell in row):
                    continue
                heading, first = first and not any(map(_is_number, row)), False
                if len(row) == 2 and all(map(_is_number, row)):
                    pairs.append((float(row[0]), float(row[1])))
                elif not (heading and len(row) == 2):
                    raise UserError(f"{path}, line {line}: {','.join(row)!r} is not start_s,value")
    except UnicodeDecodeError:
        raise UserError(f"{path} is no text in UTF-8; save it in that encoding") from None
    return pairs


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
