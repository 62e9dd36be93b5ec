"""Numbers as text."""


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
