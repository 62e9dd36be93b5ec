"""Trace every model of the zoo; store its dataflow, and what its backward passes cost.

Run as ``.venv/bin/python scripts/trace_zoo.py`` after a change to the zoo or the tracing; it takes
minutes. With ``dataflow`` or ``backward`` it writes that file alone.
"""

import sys

from workbench.memory import stored_dataflows as dataflow
from workbench.names import check_name
from workbench.olpb.costs import stored_passes as backward
from workbench.zoo import MODELS

FILES = ("dataflow", "backward")

if __name__ == "__main__":
    chosen = sys.argv[1:] or FILES
    for name in chosen:
        check_name("file", name, FILES)
    forms, costs = [], []
    for model in MODELS:
        if "dataflow" in chosen:
            forms += [dataflow.forms(model, trains) for trains in (False, True)]
        if "backward" in chosen:
            costs += list(backward.costs(model))
        print(model, flush=True)
    if "dataflow" in chosen:
        dataflow.store(forms)
        print(f"{dataflow.PATH.name}: the dataflow of every model of the zoo, traced again")
    if "backward" in chosen:
        backward.store(costs)
        print(f"{backward.PATH.name}: what backward passes of the zoo cost, computed again")
