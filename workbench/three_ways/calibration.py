"""Takes the profile that predicts the unpadded arm: ``python -m workbench.three_ways.calibration``.

It is taken before the runs that it predicts, and stored in ``data/calibration/three_ways.toml``.
"""

from __future__ import annotations

from workbench.profiles import LayerTimes, measure_layer_times
from workbench.reproduction import provenance
from workbench.three_ways.unpadded import BATCH_SIZE, HALF_BATCH, MODEL
from workbench.training.repeatable import fixed_threads
from workbench.utils import files, instruction_set

WARMUP, REPEATS = 5, 41
HEADING = f"""\
# Seconds of a model's layers on one machine, taken before the runs that they predict.
# `python -m workbench.three_ways.calibration` takes them again, on any machine.

model = "{MODEL}"
method = "alone, on one thread: medians of the faster half of {REPEATS} turns"
"""


def take() -> str:
    """Profile the model on this machine; returns the text of the file."""
    text = HEADING + f'processor = "{provenance.machine()["processor"]}"\n'
    for batch_size in (BATCH_SIZE, HALF_BATCH):
        with fixed_threads():
            times = measure_layer_times(MODEL, batch_size, warmup=WARMUP, repeats=REPEATS)
        text += f"\n[batch_{batch_size}]\niteration_s = {times.iteration_s:.4g}\n"
        for name in LayerTimes.SCHEMA:
            values = (
                f'"{value}"' if isinstance(value, str) else f"{value:.4g}"
                for value in times.table[name]
            )
            text += f"{name} = [{', '.join(values)}]\n"
    return text


if __name__ == "__main__":
    instruction_set.fix()  # as the runs that it predicts were recorded
    files.write_text(files.DATA / "calibration" / "three_ways.toml", take())
