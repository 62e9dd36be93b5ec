"""References to names of Python that no page is about."""

from __future__ import annotations

import builtins
import pkgutil
import re
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform


class ShortNames(SphinxPostTransform):
    """Says what short names of signatures mean, which Sphinx would look for in all modules.

    ``bytes`` is the built-in, not `Run.bytes`, and ``Trained`` that of the signature's module.
    """

    default_priority = 5  # before references are resolved

    def run(self, **_: object) -> None:
        """Replace references to built-in names by their text, and complete others."""
        for node in list(self.document.findall(pending_xref)):
            name, module = node.get("reftarget", ""), node.get("py:module")
            if node.get("refdomain") != "py" or "." in name:
                continue
            if hasattr(builtins, name):
                node.replace_self(node.children)
            elif module and _is_there(f"{module}.{name}"):
                node["reftarget"], node["refspecific"] = f"{module}.{name}", False


def undocumented(
    app: Sphinx, environment: BuildEnvironment, node: pending_xref, text: nodes.TextElement
) -> nodes.TextElement | None:
    """Leave a name of ours that is there without a link; any other is a warning of Sphinx's."""
    name = node["reftarget"]
    if node.get("refdomain") != "py" or not name.startswith("workbench."):
        return None
    return text if _is_there(name) else None


def _is_there(name: str) -> bool:
    try:
        pkgutil.resolve_name(name)
    except (AttributeError, ImportError, ValueError):
        return False
    return True


def plain(*event: Any) -> tuple[str, str] | None:
    """Shorten names that Sphinx leaves whole, where a default cannot be parsed."""
    *_, signature, returns = event
    if signature is None or "~" not in signature:
        return None
    return re.sub(r"~(?:\w+\.)+(\w+)", r"\1", signature), returns


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect all of them."""
    app.add_post_transform(ShortNames)
    app.connect("missing-reference", undocumented)
    app.connect("autodoc-process-signature", plain)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
