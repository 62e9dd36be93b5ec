"""Clusters in TOML files."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.clusters import load_cluster
from workbench.utils.checks import UserError

HOME = """
title = "Four boards and an edge server"
[[nodes]]
name = "board"
count = 2
gflops = 8
gbytes_per_s = 4
overhead_us = 20
memory = "1 GB"
samples = 10_000
[[nodes]]
name = "edge"
gflops = 200
watts = 60
[[links]]
between = ["board", "edge"]
mbps = 20
overhead_ms = 5
[rules]
raw_samples_may_leave = false
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "home.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_groups_become_nodes_that_are_linked_both_ways(tmp_path: Path) -> None:
    cluster = load_cluster(written(tmp_path, HOME))
    assert cluster.names == ("board1", "board2", "edge")
    board, edge = cluster.nodes[0], cluster.nodes[2]
    assert (board.flops_per_s, board.memory_bytes, board.samples) == (8e9, 1e9, 10_000)
    assert board.bytes_per_s == 4e9
    assert board.overhead_s == pytest.approx(20e-6)
    assert (edge.bytes_per_s, edge.overhead_s) == (None, 0)
    assert (edge.flops_per_s, edge.memory_bytes, edge.watts) == (200e9, None, 60)
    assert set(cluster.links) == {(0, 2), (2, 0), (1, 2), (2, 1)}
    link = cluster.link("board2", "edge")
    assert (link.bandwidth, link.overhead_s) == (20e6, 0.005)
    assert not cluster.raw_samples_may_leave


def test_link_of_a_group_with_itself_links_all_of_it(tmp_path: Path) -> None:
    text = '[[nodes]]\nname = "pi"\ncount = 3\n[[links]]\nbetween = ["pi", "pi"]\nmbps = 1\n'
    assert len(load_cluster(written(tmp_path, text)).links) == 6


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("gflops = 8", "gflop = 8", "unknown key of a node 'gflop'. Did you mean 'gflops'"),
        ("overhead_ms", "overhed_ms", "Did you mean 'overhead_ms'"),
        ("[rules]", "[rule]", "unknown key of the file 'rule'. Did you mean 'rules'"),
        ("title =", '"\u009b2J" =', r"unknown key of the file '\x9b2J'"),
        ('["board", "edge"]', '["bord", "edge"]', "Did you mean 'board"),
        ('"board", "edge"', '"board", "\\u001b[2J"', r"unknown node '\x1b[2J'"),
        ('["board", "edge"]', '["board"]', "give two names"),
        ('["board", "edge"]', '["board", "board"]', "no links lead from board1 to edge"),
        ('name = "edge"', 'name = "board"', "two nodes are called 'board'"),
        ('name = "edge"', 'name = "e\\ndge"', "give a text of a single line"),
        ("mbps = 20\n", "", "has no mbps"),
        ("mbps = 20", "mbps = 0", "board and edge is 0; it must be from 1e-09 to 1e+12"),
        ("mbps = 20", "mbps = inf", "board and edge is inf; it must be from 1e-09 to 1e+12"),
        ("mbps = 20", 'mbps = "fast"', "mbps of the link between board and edge is 'fast'"),
        ("mbps = 20", 'mbps = "1,5"', "board and edge '1,5' has a comma; write"),
        ("mbps = 20", "mbps = 1,5", "write 1.5 with a point"),
        ("overhead_ms = 5", "overhead_ms = 1e308", "it must be from 0 to 1e+12"),
        ("overhead_ms = 5", "overhead_ms = -5", "overhead_ms of the link between board and edge"),
        ("overhead_ms = 5", "latency_ms = inf", "latency_ms of the link between board and edge"),
        ("watts = 60", "watts = 0", "watts of edge is 0; it must be from 1e-09 to 1e+09"),
        ("watts = 60", 'watts = "60 W"', "watts of edge is '60 W'"),
        ("watts = 60", 'price_per_hour = "0,12"', "price_per_hour of edge '0,12' has a comma"),
        ("watts = 60", "uplink_mbps = -3", "uplink_mbps of edge is -3; it must be from"),
        ("gflops = 200", "gflops = inf", "gflops of edge is inf; it must be from 1e-09 to 1e+15"),
        ("samples = 10_000", "samples = -1", "samples of board1 is -1"),
        ('memory = "1 GB"', 'memory = "much"', "memory of board: 'much' is not a size"),
        ('memory = "1 GB"', 'memory = "1,5 GB"', "memory of board: size '1,5 GB' has a comma"),
        ('memory = "1 GB"', "memory = -1", "memory of board is -1; it must be from 1 to 1e+18"),
        ("count = 2", "count = 0", "count of board is 0"),
        ("count = 2", "count = 1_000_000_000", "all nodes together must be at most 1,000"),
        ("count = 2", "count = 999\n[[nodes]]\nname = 'b'", "count of edge is 1; all nodes"),
        ("= false", '= "no"', "raw_samples_may_leave is 'no'"),
        ("title =", "title ==", "is not TOML"),
        ("title =", "\x1b[2J =", "is not TOML"),
        ("gflops = 200", f"{'a.' * 20_000}a = 1", "line 13: more than 32 dots"),
        ("gflops = 200", f"x = {'{a=' * 3000}1{'}' * 3000}", "is nested too deeply"),
        ("count = 2", f"count = 0x{'f' * 5000}", "line 5: more than 32 dots or 100 digits"),
        ("[rules]", "#" * 1_000_000, "must have at most 1,000,000 characters"),
    ],
)
def test_mistake_is_refused_in_one_line_in_the_file_s_words(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in HOME
    with pytest.raises(UserError) as refused:
        load_cluster(written(tmp_path, HOME.replace(old, new)))
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_link_given_twice_is_refused(tmp_path: Path) -> None:
    again = '[[links]]\nbetween = ["edge", "board1"]\nmbps = 5\n'
    with pytest.raises(UserError, match="between board1 and edge is given twice"):
        load_cluster(written(tmp_path, HOME.replace("[rules]", f"{again}[rules]")))


def test_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere\.toml: cannot be read: No such file"):
        load_cluster(tmp_path / "nowhere.toml")
    latin = tmp_path / "latin.toml"
    latin.write_bytes('title = "Zürich"'.encode("latin-1"))
    with pytest.raises(UserError, match="not text in UTF-8"):
        load_cluster(latin)
