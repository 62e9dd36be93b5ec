"""Numbers as text."""

import math
from collections.abc import Sequence


def three_digits(value: float) -> str:
    """Three significant digits, never in powers of ten from 1000 on.

    >>> three_digits(0.012345), three_digits(1234.5)
    ('0.0123', '1,234')
    """
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def link_rate(mbps: float) -> str:
    """Write a bandwidth with its unit, to three significant digits.

    >>> link_rate(3.5), link_rate(106.756), link_rate(10_000)
    ('3.5 Mbit/s', '107 Mbit/s', '10 Gbit/s')
    """
    return f"{mbps / 1e3:.3g} Gbit/s" if mbps >= 999.5 else f"{mbps:.3g} Mbit/s"


def percent(share: float, digits: int = 0) -> str:
    """Write a share in percent, with the space that the SI has before the sign.

    >>> percent(0.756), percent(0.0123, 1)
    ('76 %', '1.2 %')
    """
    return f"{100 * share:.{digits}f} %"


def bytes_as_text(size_bytes: float, *, up: bool = False) -> str:
    """Three significant digits with a unit, rounded up if `up`.

    >>> bytes_as_text(459_751_424), bytes_as_text(459_751_424, up=True), bytes_as_text(12)
    ('460 MB', '460 MB', '12 bytes')
    """
    size = math.ceil(size_bytes) if up else round(size_bytes)
    if size < 1000:
        return f"{size} byte{'' if size == 1 else 's'}"
    step = 10 ** (len(str(size)) - 3)
    size = step * ((size + (step - 1 if up else step // 2)) // step)
    number = min(4, (len(str(size)) - 1) // 3)
    return f"{three_digits(size / 1000**number)} {' kMGT'[number]}B"


def counted(number: int, noun: str) -> str:
    """Write a number with its noun.

    >>> counted(1, "layer"), counted(1200, "layer")
    ('1 layer', '1,200 layers')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def shape_as_text(shape: Sequence[int] | Sequence[Sequence[int]]) -> str:
    """Write a tensor's shape, or several.

    >>> shape_as_text((3, 224, 224)), shape_as_text(((3, 8), (4,)))
    ('3×224×224', '3×8 and 4')
    """
    several = [part for part in shape if isinstance(part, Sequence)]
    return " and ".join(map(shape_as_text, several)) or "×".join(map(str, shape))


def batch_as_text(size: int, shape: Sequence[int] | Sequence[Sequence[int]]) -> str:
    """Write a batch of samples of this shape.

    >>> batch_as_text(32, (1, 28, 28)), batch_as_text(1, (8,))
    ('a batch of 32 of 1×28×28', 'one sample of 8')
    """
    samples = f"a batch of {size}" if size > 1 else "one sample"
    return f"{samples} of {shape_as_text(shape)}"
