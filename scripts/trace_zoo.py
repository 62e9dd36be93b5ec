"""Store what models of the zoo cost, their dataflows, and what their backward passes cost.

Run as ``.venv/bin/python scripts/trace_zoo.py`` after a change to the zoo, to the tracing or to
what is counted; it takes minutes. With names, such as ``profiles``, it writes those files alone.
Where only words have changed, nothing is traced, and the key alone is written again. Another
version of PyTorch asks for all: delete the keys first.
"""

import sys
from collections.abc import Callable

from workbench.memory import stored_dataflows
from workbench.olpb.costs import stored_passes
from workbench.profiles import analytic
from workbench.store.kept import Kept, packed
from workbench.utils.checks import check_name
from workbench.zoo import MODELS

FILES: dict[str, tuple[Kept, Callable[[], bytes]]] = {
    "profiles": (analytic.KEPT, analytic.zoo_as_json),
    "dataflows": (
        stored_dataflows.KEPT,
        lambda: packed(
            member
            for model in MODELS
            for training in (False, True)
            for member in stored_dataflows.forms(model, training)
        ),
    ),
    "passes": (
        stored_passes.KEPT,
        lambda: packed(member for model in MODELS for member in stored_passes.costs(model)),
    ),
}

if __name__ == "__main__":
    chosen = sys.argv[1:] or list(FILES)
    for name in chosen:
        check_name("file", name, FILES)
    for name in chosen:
        kept, make = FILES[name]
        content = kept.content()
        kept.keep(make() if content is None else content)
        print(f"{kept.path.name}: {'traced' if content is None else 'the same code'}", flush=True)
