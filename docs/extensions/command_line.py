"""The reference of the command line, from the command itself."""

from __future__ import annotations

import re
from typing import Any

import typer

from workbench.cli import app


def page() -> str:
    """Return the page: usage, arguments and options of each command."""
    group: Any = typer.main.get_command(app)
    lines = ["# Command line", "", group.help, "", "Every command prints this with `--help`."]
    lines += ["Wrong input ends with status 2 and one line that says what is allowed, Ctrl-C with"]
    lines += ["130.", ""]
    for name, command in sorted(group.commands.items()):
        context = typer.Context(command, info_name=f"workbench {name}")
        pieces = " ".join(command.collect_usage_pieces(context))
        usage = re.sub(r"{(\w+)}", lambda found: found[1].upper(), pieces)
        lines += [f"## workbench {name}", "", _text(command.help or ""), ""]
        lines += ["```text", f"workbench {name} {usage}", "```", ""]
        for parameter in command.params:
            if getattr(parameter, "hidden", False) or not getattr(parameter, "help", None):
                continue
            lines += [_named(parameter), f": {_text(parameter.help)}{_default(parameter)}", ""]
    return "\n".join(lines)


def _named(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar or parameter.name.upper()}`"
    value = "" if parameter.is_flag else f" {parameter.metavar or parameter.name.upper()}"
    spelt = [*parameter.opts, *parameter.secondary_opts]
    return ", ".join(f"`{one}{value}`" for one in spelt)


def _default(parameter: Any) -> str:
    plain = parameter.default is not None and not isinstance(parameter.default, bool)
    return f" Default: `{parameter.default}`." if plain and not callable(parameter.default) else ""


def _text(text: str) -> str:
    """Plain Markdown of a help text, whose brackets are escaped for rich."""
    return (
        " ".join(text.replace("\\[", "[").replace("[default:", "Default:").split())
        .replace("*", "\\*")
        .removesuffix("]")
    )
