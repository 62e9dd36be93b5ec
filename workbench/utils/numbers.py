"""Numbers as text."""


def three_digits(value: float) -> str:
    """Three significant digits, never in powers of ten from 1000 on.

    >>> three_digits(0.012345), three_digits(1234.5)
    ('0.0123', '1,234')
    """
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"
