"""Clusters in files: nodes, links and rules as a person writes them down, in TOML.

::

    title = "Four boards and an edge server"
    [[nodes]]
    name = "board"
    count = 4              # board1 to board4
    gflops = 8             # sustained in training
    gbytes_per_s = 4       # of its memory; and overhead_us of each pass over a layer
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
from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

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


class Quantity(NamedTuple):
    """The field that a key sets, its unit, and bounds in that unit."""

    field: str
    unit: float
    least: float = 1e-9
    most: float = 1e12


NODE = {
    "gflops": Quantity("flops_per_s", 1e9, most=1e15),
    "gbytes_per_s": Quantity("bytes_per_s", 1e9, most=1e15),
    "overhead_us": Quantity("overhead_s", 1e-6, least=0),
    "memory": Quantity("memory_bytes", 1, least=1, most=MOST_BYTES),
    "uplink_mbps": Quantity("uplink_bps", 1e6),
    "downlink_mbps": Quantity("downlink_bps", 1e6),
}
AS_WRITTEN = ("cores", "samples", "watts", "price_per_hour")
LINK = {
    "mbps": Quantity("bandwidth_bps", 1e6),
    "overhead_ms": Quantity("overhead_s", 1e-3, least=0),
    "latency_ms": Quantity("latency_s", 1e-3, least=0),
}

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
    for number, line in enumerate(text.split("\n"), start=1):
        if line.count(".") > MOST_DOTS or re.search(r"0[xob]\w{100}", line):
            raise UserError(
                f"{path}, line {number}: more than {MOST_DOTS} dots or 100 digits; use fewer"
            )
    try:
        return cluster_of(tomllib.loads(text))
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except ValueError as error:
        comma = _DECIMAL_COMMA.search(text)
        why = f"write {comma[1]}.{comma[2]} with a point" if comma else error
        raise UserError(f"{path}: is not TOML: {why}") from None
    except RecursionError:
        raise UserError(f"{path}: is nested too deeply; give tables of nodes and links") from None


def cluster_of(content: Mapping[str, Any]) -> Cluster:
    """Make a cluster of what a TOML file holds; errors as for `load_cluster`."""
    _check_keys("the file", content, ("title", "nodes", "links", "rules"))
    nodes: list[Node] = []
    members: dict[str, list[int]] = {}
    for entry in _tables("nodes", content):
        _check_keys("a node", entry, ("name", "count", *NODE, *AS_WRITTEN))
        name = entry.get("name")
        if not (isinstance(name, str) and name and name.isprintable()):
            raise UserError(f"a node has the name {name!r}; give a text of a single line")
        if name in members:
            raise UserError(f"two nodes are called {name!r}; give them different names, or a count")
        group = _nodes(name, entry, most=MOST_NODES - len(nodes))
        members[name] = [len(nodes) + at for at in range(len(group))]
        nodes += group
    members = {node.name: [index] for index, node in enumerate(nodes)} | members
    links: dict[tuple[Name, Name], Link] = {}
    for entry in _tables("links", content):
        _check_keys("a link", entry, ("between", *LINK))
        between = entry.get("between")
        if not (isinstance(between, list) and len(between) == 2):
            raise UserError(f'a link is between {between!r}; give two names: ["board", "edge"]')
        first, second = (choose("node", name, members) for name in between)
        called = f"the link between {between[0]} and {between[1]}"
        if "mbps" not in entry:
            raise UserError(f"{called} has no mbps; give what it carries")
        link = Link(**_quantities(called, entry, LINK))
        pairs = {(min(pair), max(pair)) for pair in product(first, second)}
        for a, b in pairs:
            if (a, b) in links:
                names = f"{nodes[a].name} and {nodes[b].name}"
                raise UserError(f"the link between {names} is given twice")
            if a != b:
                links[a, b] = links[b, a] = link
    rules = content.get("rules", {})
    _check_keys("rules", rules, ("raw_samples_may_leave",))
    cluster = Cluster(nodes, links, **rules)
    _check_reach(cluster)
    return cluster


def _nodes(name: str, entry: Mapping[str, Any], most: int) -> list[Node]:
    count = check_whole(f"count of {name}", entry.get("count", 1), 1)
    if count > most:
        raise UserError(
            f"count of {name} is {count}; all nodes together must be at most {MOST_NODES:,}"
        )
    if isinstance(memory := entry.get("memory"), str):
        try:
            entry = {**entry, "memory": parse_bytes(memory)}
        except UserError as error:
            raise UserError(f"memory of {name}: {error}") from None
    about = _quantities(name, entry, NODE) | {key: entry[key] for key in AS_WRITTEN if key in entry}
    names = [name] if "count" not in entry else [f"{name}{at}" for at in range(1, count + 1)]
    return [Node(node, **about) for node in names]


def _quantities(of: str, entry: Mapping[str, Any], keys: Mapping[str, Quantity]) -> dict[str, Any]:
    """Fields and values of the keys that are given."""
    return {
        known.field: check_range(f"{key} of {of}", entry[key], known.least, known.most) * known.unit
        for key, known in keys.items()
        if key in entry
    }


def _check_reach(cluster: Cluster) -> None:
    reached, waiting = {0}, [0]  # links lead both ways
    while waiting:
        new = set(cluster.targets(waiting.pop())) - reached
        reached |= new
        waiting += new
    for index, name in enumerate(cluster.names):
        if index not in reached:
            raise UserError(f"no links lead from {cluster.names[0]} to {name}; add [[links]]")


def _tables(name: str, content: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    tables = content.get(name, [])
    if not isinstance(tables, list):
        raise UserError(f"{name} is {tables!r}; write each under a heading [[{name}]]")
    return tables


def _check_keys(what: str, entry: object, known: Iterable[str]) -> None:
    if not isinstance(entry, Mapping):
        raise UserError(f"{what} is {entry!r}; write its keys under a heading")
    for key in entry:
        check_name(f"key of {what}", key, known)
