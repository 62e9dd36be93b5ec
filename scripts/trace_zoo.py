"""Trace every model of the zoo and store its dataflow, after a change to the zoo or the tracing.

Run as ``.venv/bin/python scripts/trace_zoo.py``; it takes minutes.
"""

from workbench.olpb.memory import stored
from workbench.zoo import MODELS

if __name__ == "__main__":
    found = []
    for name in MODELS:
        found += [stored.forms(name, trains) for trains in (False, True)]
        print(name, flush=True)
    stored.store(found)
    print(f"{stored.PATH.name}: the dataflow of every model of the zoo, traced anew")
