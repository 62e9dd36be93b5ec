"""Clusters in files: nodes, links and rules as a person writes them down, in TOML.

::

    title = "Four boards and an edge server"
    [[nodes]]
    name = "board"
    count = 4              # board1 to board4
    gflops = 8             # sustained in training
    memory = "1 GB"
    samples = 10_000       # that each of them holds
    [[nodes]]
    name = "edge"
    gflops = 200
    [[links]]
    between = ["board", "edge"]   # each board with the edge, both ways
    mbps = 20
    overhead_ms = 5
    [rules]
    raw_samples_may_leave = false
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from workbench.clusters.cluster import Cluster, Name
from workbench.clusters.link import Link
from workbench.clusters.node import Node
from workbench.utils.checks import (
    MOST_BYTES,
    UserError,
    check_name,
    check_range,
    check_whole,
    choose,
    parse_bytes,
)
from workbench.utils.files import read_text

NODE = (
    "name",
    "count",
    "gflops",
    "memory",
    "samples",
    "cores",
    "uplink_mbps",
    "downlink_mbps",
    "watts",
    "price_per_hour",
)
LINK = ("between", "mbps", "overhead_ms", "latency_ms")
RULES = ("raw_samples_may_leave",)
TOP = ("title", "nodes", "links", "rules")

LEAST, MOST = 1e-9, 1e12
"""Of a number with a unit, unless another bound is given."""

MOST_NODES = 1000
"""Nodes of a cluster at most; links may join all of them."""

MOST_TEXT, MOST_DOTS = 1_000_000, 32
"""Characters of a file, and dots in one of its lines: reading keys of many parts fills memory."""


_DECIMAL_COMMA = re.compile(r"^\s*\w+\s*=\s*([+-]?\d+),(\d+)\s*(?:#.*)?$", re.ASCII | re.MULTILINE)


def load_cluster(path: Path | str) -> Cluster:
    """Read a cluster from a TOML file; see the module for an example.

    A group of nodes has a `count`. A link between two groups links each node of the first with each
    of the second; between a group and itself, it links all of its nodes. A link is the same in both
    directions.

    Raises
    ------
    UserError
        The file is missing or not TOML; a key, a value or a node that cannot be; a link given
        twice; a node that cannot reach the others.
    """
    text = read_text(path, MOST_TEXT)
    for number, line in enumerate(text.split("\n"), start=1):  # as TOML has lines
        if line.count(".") > MOST_DOTS:
            raise UserError(f"{path}, line {number}: more than {MOST_DOTS} dots; keys have few")
        if re.search(r"0[xob]\w{100}", line):  # too long for Python to print in an error
            raise UserError(f"{path}, line {number}: more than 100 digits; give a smaller number")
    try:
        content = tomllib.loads(text)
    except ValueError as error:
        comma = _DECIMAL_COMMA.search(text)
        why = f"write {comma[1]}.{comma[2]} with a point" if comma else error
        raise UserError(f"{path}: is not TOML: {why}") from None
    except RecursionError:
        raise UserError(f"{path}: is nested too deeply; give tables of nodes and links") from None
    try:
        return cluster_of(content)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def cluster_of(content: Mapping[str, Any]) -> Cluster:
    """Make a cluster of what a TOML file holds; errors as for `load_cluster`."""
    _check_keys("the file", content, TOP)
    groups: dict[str, list[Node]] = {}
    left = MOST_NODES
    for entry in _tables("nodes", content):
        _check_keys("a node", entry, NODE)
        name = _text("name", "a node", entry)
        if name in groups:
            raise UserError(f"two nodes are called {name!r}; give them different names, or a count")
        groups[name] = _nodes(name, entry, left)
        left -= len(groups[name])
    nodes = [node for group in groups.values() for node in group]
    called = {node.name: [index] for index, node in enumerate(nodes)}
    called |= {name: [called[each.name][0] for each in own] for name, own in groups.items()}
    links: dict[tuple[Name, Name], Link] = {}
    for entry in _tables("links", content):
        _check_keys("a link", entry, LINK)
        between = entry.get("between")
        if not (isinstance(between, list) and len(between) == 2):
            raise UserError(f'a link is between {between!r}; give two names: ["board", "edge"]')
        ends = [choose("node", name, called) for name in between]
        link = _link(" and ".join(map(str, between)), entry)
        for a, b in dict.fromkeys((min(pair), max(pair)) for pair in product(*ends)):
            if a == b:
                continue
            if (a, b) in links:
                names = f"{nodes[a].name} and {nodes[b].name}"
                raise UserError(f"the link between {names} is given twice")
            links[a, b] = links[b, a] = link
    rules = content.get("rules", {})
    _check_keys("rules", rules, RULES)
    cluster = Cluster(nodes, links, **rules)
    _check_reach(cluster)
    return cluster


def _nodes(name: str, entry: Mapping[str, Any], left: int) -> list[Node]:
    count = check_whole(f"count of {name}", entry.get("count", 1), 1)
    if count > left:
        raise UserError(
            f"count of {name} is {count}; all nodes together must be at most {MOST_NODES:,}"
        )
    about = {
        "cores": entry.get("cores", 1),
        "flops_per_s": _scaled("gflops", name, entry, 1e9, most=1e15),
        "memory_bytes": _memory(name, entry),
        "samples": entry.get("samples", 0),
        "uplink_bps": _scaled("uplink_mbps", name, entry, 1e6),
        "downlink_bps": _scaled("downlink_mbps", name, entry, 1e6),
        "watts": entry.get("watts"),
        "price_per_hour": entry.get("price_per_hour"),
    }
    names = [name] if "count" not in entry else [f"{name}{at}" for at in range(1, count + 1)]
    return [Node(each, **about) for each in names]


def _link(between: str, entry: Mapping[str, Any]) -> Link:
    if "mbps" not in entry:
        raise UserError(f"the link between {between} has no mbps; give what it carries")
    of = f"the link between {between}"
    rate_bps = _scaled("mbps", of, entry, 1e6)
    assert rate_bps is not None
    overhead_s, latency_s = (
        _scaled(name, of, entry, 1e-3, least=0.0) or 0.0 for name in ("overhead_ms", "latency_ms")
    )
    return Link(rate_bps, overhead_s=overhead_s, latency_s=latency_s)


def _check_reach(cluster: Cluster) -> None:
    near, far = [0], set(range(1, len(cluster)))  # links lead both ways
    for node in near:
        found = far.intersection(cluster.targets(node))
        near += found
        far -= found
    if far:
        lonely = cluster.names[min(far if len(far) < len(near) else near)]
        others = ", ".join(name for name in cluster.names if name != lonely)
        raise UserError(f"no links lead from {lonely} to all others ({others}); add [[links]]")


def _scaled(
    key: str,
    of: str,
    entry: Mapping[str, Any],
    scale: float,
    *,
    least: float = LEAST,
    most: float = MOST,
) -> float | None:
    """A number times a scale; None if the key is left out."""
    value = entry.get(key)
    if value is None:
        return None
    return check_range(f"{key} of {of}", value, least, most) * scale


def _memory(name: str, entry: Mapping[str, Any]) -> float | None:
    """Bytes of memory, from a number of them or a size such as ``1 GB``."""
    value = entry.get("memory")
    if not isinstance(value, str):
        return _scaled("memory", name, entry, 1, least=1, most=MOST_BYTES)
    try:
        return parse_bytes(value)
    except UserError as error:
        raise UserError(f"memory of {name}: {error}") from None


def _text(key: str, what: str, entry: Mapping[str, Any]) -> str:
    value = entry.get(key)
    if not (isinstance(value, str) and value and value.isprintable()):
        raise UserError(f"{what} has the {key} {value!r}; give a text of a single line")
    return value


def _tables(name: str, content: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    tables = content.get(name, [])
    if not (isinstance(tables, list) and all(isinstance(table, dict) for table in tables)):
        raise UserError(f"{name} is {tables!r}; write each under a heading [[{name}]]")
    return tables


def _check_keys(what: str, entry: object, known: Sequence[str]) -> None:
    if not isinstance(entry, Mapping):
        raise UserError(f"{what} is {entry!r}; write its keys under a heading")
    for key in entry:
        check_name(f"key of {what}", key, known)
