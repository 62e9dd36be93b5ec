"""Trace every model of the zoo and store what it costs, after a change to the zoo or the tracing.

Run as ``.venv/bin/python scripts/profile_zoo.py``.
"""

from workbench.profiles import stored
from workbench.profiles.analytic import costs_of_zoo

if __name__ == "__main__":
    stored.store(costs_of_zoo())
    print(f"{stored.PATH.name}: what every model of the zoo costs, traced again")
