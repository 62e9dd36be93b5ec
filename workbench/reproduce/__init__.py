"""Runs the notebooks from start to end and keeps their results; papermill underneath.

A notebook's results are written to a hidden folder beside their final place and moved there in one
step when all are complete, so a run may be stopped at any moment and started again: finished
notebooks stay, the others run. A notebook is finished if the same commit, without changes since,
made its results with the same parameters and versions.

One call goes through these files::

    driver.py      the call itself: check, plan, run, report; Ctrl-C and other signals
    notebooks.py   finds and reads notebooks; the value of every parameter they declare
    runner.py      one notebook, from its hidden folder to its place
    execution.py   papermill and the processes that notebooks run in
    progress.py    what each notebook is doing now, as a live table or as lines
    report.py      outcomes, and how they are printed

A sweep (`workbench sweep`) runs one notebook at many points by the same files::

    sweep.py       the call itself
    grid.py        values as a user writes them, and the points that they make
    points.py      what became of all points: their table, and what they kept in one frame each
    elsewhere.py   notebooks on the machines of a Ray cluster
"""

from workbench.reproduce.driver import reproduce
from workbench.reproduce.notebooks import find, read_notebook, resolve
from workbench.reproduce.report import Report

__all__ = ["Report", "find", "read_notebook", "reproduce", "resolve"]
