"""The reference of the API: a page for each room, from its docstrings."""

from __future__ import annotations

from importlib import import_module

ROOMS = {
    "Models and costs": ("zoo", "profiles", "graphs", "memory"),
    "Machines and programs": ("clusters", "runtime", "runtime.measured"),
    "Data and training": ("datasets", "datasets.partition", "training", "decentralised"),
    "Systems": ("dynacomm", "hiertrain", "hiertrain.fleet", "edgegossip", "dlion", "olpb"),
    "Comparison": ("comparison", "comparison.learning"),
    "Results": ("experiments", "claims", "scorecard", "figures", "notebook", "results", "widgets"),
}


def pages() -> dict[str, str]:
    """Return the text of each page by its name."""
    index = ["# Python", "", "By room; in each, what its public face offers.", ""]
    texts = {}
    for group, rooms in ROOMS.items():
        index += [f"## {group}", ""]
        for room in rooms:
            name = f"workbench.{room}"
            said = (import_module(name).__doc__ or "").partition("\n")[0]
            index += [f"- [`{name}`]({room}.md): {said[0].lower()}{said[1:]}"]
            texts[room] = _page(name)
        index += [
            "",
            ":::{toctree}",
            ":hidden:",
            "",
            *(f"{one} <{one}>" for one in rooms),
            ":::",
            "",
        ]
    return {**texts, "index": "\n".join(index)}


def _page(name: str) -> str:
    module = import_module(name)
    elsewhere = {
        public: home
        for public in getattr(module, "__all__", ())
        if (home := _home(getattr(module, public))) not in (name, "")
    }
    lines = [f"# {name}", "", "```{eval-rst}", f".. automodule:: {name}", "   :members:"]
    if elsewhere:
        lines += [f"   :exclude-members: {', '.join(elsewhere)}", ""]
        others = (f":py:obj:`{home}.{public}`" for public, home in elsewhere.items())
        lines += ["", f"Also here: {', '.join(others)}."]
    return "\n".join([*lines, "```", ""])


def _home(value: object) -> str:
    """The room that a class or function is of; empty for other values."""
    module = getattr(value, "__module__", "") if callable(value) else ""
    rooms = [f"workbench.{room}" for group in ROOMS.values() for room in group]
    within = [room for room in rooms if module == room or module.startswith(f"{room}.")]
    room = max(within, key=len, default="")
    public = getattr(import_module(room), "__all__", ()) if room else ()
    return room if getattr(value, "__name__", "") in public else ""
