"""The example of Fig. 4: its sizes, and why LSH parts similar points."""

from __future__ import annotations

import polars as pl

from workbench.edgegossip.aggregation.costs import COUNTED
from workbench.edgegossip.paper.example import EXAMPLE, FIG4, GROUPS, divided


def sizes(frame: pl.DataFrame, technique: str) -> list[int]:
    counts = frame.filter(technique=technique).group_by("subset").len()["len"]
    return sorted(counts.to_list(), reverse=True)


def test_points_are_as_many_as_the_papers_in_as_many_subsets() -> None:
    assert sum(GROUPS) == EXAMPLE["points"]
    assert len(GROUPS) == EXAMPLE["subsets"]
    frame = divided()
    assert frame["technique"].unique(maintain_order=True).to_list() == list(COUNTED)
    for technique in COUNTED:
        assert frame.filter(technique=technique)["point"].to_list() == list(range(1, 13))
        assert len(sizes(frame, technique)) == EXAMPLE["subsets"]
        assert sum(sizes(frame, technique)) == EXAMPLE["points"]


def test_clusters_are_the_similar_points_and_buckets_are_of_one_size() -> None:
    frame = divided()
    for technique in ("svd_kmeans", "hash_kmeans"):
        together = frame.filter(technique=technique).group_by("group")
        assert together.agg(pl.col("subset").n_unique())["subset"].to_list() == [1] * len(GROUPS)
    # So seven similar points lie in three buckets at least, which is the cause of the miss.
    assert sizes(frame, "incremental_svd_lsh") == [3, 3, 3, 3]
    similar = FIG4.answers["edgegossip.fig4.similar"](frame)
    assert similar is not None
    assert (similar.ours, similar.detail) == (False, "parted by incremental_svd_lsh")
