"""Trace every model of the zoo and store what it costs, after a change to the zoo or the tracing.

Run as ``.venv/bin/python scripts/profile_zoo.py``.
"""

from workbench.profiles import stored

if __name__ == "__main__":
    stored.store()
    print(f"{stored.PATH.name}: what every model of the zoo costs, traced anew")
