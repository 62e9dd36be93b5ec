"""A synthetic bandwidth trace like a mobile network's; run it to write the file.

The logarithm of the rate is a first-order autoregression (slow fading over some twenty seconds);
hand-overs cut it for some seconds. No operator's network was measured.
"""

from __future__ import annotations

import numpy as np

from workbench.utils import files
from workbench.utils.files import DATA

TRACE = DATA / "traces" / "mobile_synthetic.csv"
SECONDS = 1200
SEED = 20210915
MEDIAN_MBPS = 900.0
SPREAD = 0.6
FADES_S = 20.0
HANDOVER_EVERY_S = 90.0
HANDOVER_S = 6
HANDOVER_SHARE = 0.2
RANGE_MBPS = (40.0, 3000.0)


def mobile_trace(seconds: int = SECONDS, seed: int = SEED) -> list[tuple[int, float]]:
    """Draw (start_s, Mbit/s), a pair a second, to 0.1 Mbit/s."""
    random = np.random.default_rng(seed)
    keeps = np.exp(-1 / FADES_S)
    rows, level, handover = [], float(random.normal()), 0
    for second in range(seconds):
        level = keeps * level + np.sqrt(1 - keeps**2) * float(random.normal())
        if handover == 0 and random.random() < 1 / HANDOVER_EVERY_S:
            handover = HANDOVER_S
        share = HANDOVER_SHARE if handover else 1.0
        handover = max(0, handover - 1)
        rate_mbps = np.clip(MEDIAN_MBPS * np.exp(SPREAD * level) * share, *RANGE_MBPS)
        rows.append((second, round(float(rate_mbps), 1)))
    return rows


def text() -> str:
    """The file: a heading, then a line a second."""
    lines = [f"{start_s},{rate_mbps}" for start_s, rate_mbps in mobile_trace()]
    return "\n".join(["start_s,bandwidth_mbps", *lines, ""])


if __name__ == "__main__":
    files.write_text(TRACE, text())
