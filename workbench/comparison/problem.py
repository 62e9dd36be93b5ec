"""The problem that all methods of training solve: one model on one cluster."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import networkx as nx
import numpy as np
import polars as pl

from workbench.clusters import Cluster, Link, Node
from workbench.clusters.cluster import some
from workbench.comparison.memory import NodeMemory, StepMemory
from workbench.comparison.routes import Routes, at_beginning
from workbench.profiles import LayerTimes, ModelProfile
from workbench.utils.checks import (
    UserError,
    check_kind,
    check_name,
    check_range,
    check_truth,
    check_whole,
)
from workbench.utils.numbers import bytes_as_text

USUAL_SAMPLES = 1000
"""Samples of each node, if the cluster states none for any node."""

MOST_ACCUMULATED = 10_000
"""Batches of a step, each of which is simulated."""

MOST_S = 1e12
"""Longest time of a batch: thirty thousand years."""


class UnusableError(UserError):
    """A method of training that this cluster does not allow; the message says why."""


@dataclass(frozen=True, eq=False)
class Problem:
    """One model on one cluster, the same for all methods of training.

    Attributes
    ----------
    profile
        The model.
    cluster
        Nodes with ``flops_per_s``, and links over which each node reaches all others.
    batch_size
        Samples of each worker in an iteration, or in each of the batches that it accumulates.
    times
        Node name -> its measured seconds by layer, used in place of its ``flops_per_s``.
    memory
        Memory of a step by its samples (`memory_of`); None if that is not known.
    epochs
        Length of the training over which rates are means.
    accumulate
        Batches of each worker in a step of SGD, whose gradients are added up: parameters and
        gradients travel, and weights are updated, once for all of them.
    cache_frozen
        Whether the activations behind the frozen layers at the front are computed in the first
        epoch, kept, and read in all later ones, as in PAC (Ouyang et al. 2024). Times of layers
        are then means over all epochs; those of the first and of later epochs are in `periods`.
    frozen_share
        With `cache_frozen`: share of the epochs in which these layers are computed, by default
        1 / `epochs`.

    Raises
    ------
    UserError
        A node with neither speed nor times; times of other layers, or of an unknown node; a node
        that does not reach all others; `cache_frozen` without a frozen layer at the front.
    """

    profile: ModelProfile
    cluster: Cluster
    batch_size: int = 32
    times: Mapping[str, LayerTimes] | None = None
    memory: StepMemory | None = None
    epochs: int = 10
    accumulate: int = 1
    cache_frozen: bool = False
    frozen_share: float | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_kind("profile", self.profile, ModelProfile, "profile_model(name or module)")
        check_kind("cluster", self.cluster, Cluster, "a Cluster, such as load_cluster(path)")
        for name in ("batch_size", "epochs", "accumulate"):
            object.__setattr__(self, name, check_whole(name, getattr(self, name), 1))
        check_range("accumulate", self.accumulate, 1, MOST_ACCUMULATED)
        check_truth("cache_frozen", self.cache_frozen)
        if self.frozen_share is not None:
            check_range("frozen_share", self.frozen_share, 0, 1)
        if self.cache_frozen and not self.frozen_layers:
            raise UserError(
                "cache_frozen keeps the activations behind frozen layers in front of the first "
                f"trained one, and {self.profile.name} has none; freeze its first layers "
                "(requires_grad_(False)), or leave cache_frozen out"
            )
        if not isinstance(self.times, Mapping | None):
            raise UserError(f"times is {self.times!r}; give layer times by the name of a node")
        measured = dict(self.times or {})
        for name, times in measured.items():
            check_name("node", name, self.cluster.names)
            check_kind(f"times of {name}", times, LayerTimes, "LayerTimes, such as a saved file's")
            if times.layers != self.profile.layers:
                raise UserError(
                    f"the times of {name} are of other layers than {self.profile.name} has; "
                    "profile the same model there"
                )
        for node in self.cluster.nodes:
            if node.flops_per_s is None and node.name not in measured:
                raise UserError(
                    f"{node.name} has neither gflops nor measured times; give what it sustains in "
                    "training, or profile the model on it: workbench profile --measure --save"
                )
            if not (batch_s := self._plain_s(node)) < MOST_S:
                raise UserError(
                    f"{node.name} would take {batch_s:.3g} s for a batch; give the gflops that it "
                    "sustains in training"
                )
        graph = nx.DiGraph(self.cluster.links.keys())
        graph.add_nodes_from(range(len(self.cluster)))
        if nx.is_strongly_connected(graph):
            return
        for source, name in enumerate(self.cluster.names):
            for target in sorted({*graph} - {source} - nx.descendants(graph, source)):
                raise UserError(
                    f"no links lead from {name} to {self.cluster.names[target]}; every node has to "
                    "reach all others, if by way of others: add links"
                )

    def _plain_s(self, node: Node) -> float:
        """Seconds of a batch at speed 1."""
        measured = (self.times or {}).get(node.name)
        if measured is not None:
            sample_s = (measured.forward_s + measured.backward_s) / measured.batch_size
            return self.batch_size * sample_s
        flops = self.profile.table.select("forward_flops", "backward_flops").sum().sum_horizontal()
        return self.batch_size * float(flops.item()) / (node.flops_per_s or math.inf)

    @property
    def step_samples(self) -> int:
        """Samples of each worker in a step."""
        return self.batch_size * self.accumulate

    @property
    def model_bytes(self) -> int:
        """Bytes of all trained parameters, which are those of a gradient as well."""
        return int(self.profile.table["param_bytes"].sum())

    @property
    def sample_bytes(self) -> float:
        """Bytes of a raw sample as the model takes it."""
        return float(self.profile.sample_bytes)

    @property
    def frozen_layers(self) -> int:
        """Number of layers before the first trained one; 0 if none is trained."""
        trained = np.flatnonzero(self.profile.table["param_bytes"])
        return int(trained[0]) if len(trained) else 0

    @cached_property
    def without_cache(self) -> Problem:
        """The problem of methods that compute frozen layers in every epoch."""
        return replace(self, cache_frozen=False)

    @cached_property
    def periods(self) -> Sequence[tuple[Problem, float]]:
        """Problems of the epochs in which times of layers differ, and their shares of all epochs.

        A method plans once, for the means, and is simulated in each period.
        """
        if not self.cache_frozen or self.frozen_share is not None:
            return [(self, 1.0)]
        first, later = (replace(self, frozen_share=share) for share in (1.0, 0.0))
        return [(first, 1 / self.epochs), (later, 1 - 1 / self.epochs)][: self.epochs]

    def kept(self, samples: int) -> str:
        """The activations that are kept, in words, if the fullest node keeps those of `samples`."""
        last = self.profile.table.row(self.frozen_layers - 1, named=True)
        size = bytes_as_text(samples * last["output_bytes"])
        return (
            f"activations behind {last['layer']} are computed in the first of {self.epochs} epochs "
            f"and kept ({size} on a node, at most), of samples that are the same in each"
        )

    def needed_bytes(self, samples: int, *, serves: bool = False) -> float | None:
        """Memory of a step on this many samples; None if it is not known.

        A server keeps parameters and gradients beside that: a node of 0 samples, or one that
        `serves` as well as learns.
        """
        if self.memory is None:
            return None
        step_bytes = self.memory(samples) if samples else 0.0
        return step_bytes + (2.0 * self.model_bytes if serves or not samples else 0.0)

    def fits(self, node: int, samples: int, *, serves: bool = False) -> bool:
        """Whether a node has the memory for a step; True where either is not known."""
        memory = self.node_memory(node, samples, serves=serves)
        return memory is None or memory.fits is not False

    def node_memory(self, node: int, samples: int, *, serves: bool = False) -> NodeMemory | None:
        """Memory of a step, and whether the node has it; None if the memory is not known."""
        needed = self.needed_bytes(samples, serves=serves)
        return None if needed is None else self.memory_on(node, needed)

    def memory_on(self, node: int, needed_bytes: float) -> NodeMemory:
        """The memory that a node needs, and whether it has it."""
        capacity = self.cluster.nodes[node].memory_bytes
        return NodeMemory(needed_bytes, None if capacity is None else needed_bytes <= capacity)

    @cached_property
    def by_name(self) -> tuple[int, ...]:
        """All nodes in the order of their names, whatever their order in a file."""
        return tuple(sorted(range(len(self.cluster)), key=self.cluster.names.__getitem__))

    @property
    def unlike(self) -> tuple[int, ...]:
        """Nodes without duplicates: of nodes that differ only in their names, the first by name."""
        return tuple(dict.fromkeys(self.first_alike.values()))

    @cached_property
    def first_alike(self) -> Mapping[int, int]:
        """Node -> the first by name of the nodes that differ from it only in their names.

        These have equal links with the same neighbours, except for links with each other.
        """
        links: defaultdict[int, list[tuple[int, bool, Link]]] = defaultdict(list)
        for (source, target), link in self.cluster.links.items():
            links[source].append((target, True, link))
            links[target].append((source, False, link))
        first, alike = dict[object, int](), dict[int, int]()
        for node in self.by_name:
            kinds = {(out, link) for _, out, link in links[node]}
            keys: list[object] = [(self.kind(node), frozenset(links[node]))]
            if len(kinds) <= 2:  # one kind out, one in: neighbours of each other may be alike
                near = {(other, out) for other, out, _ in links[node]}
                near |= {(node, True), (node, False)}
                keys.append((self.kind(node), frozenset(near), frozenset(kinds)))
            alike[node] = next((first[key] for key in keys if key in first), node)
            for key in keys:
                first.setdefault(key, alike[node])
        return alike

    def kind(self, node: int) -> tuple[Node, int]:
        """Key that is equal for two nodes that differ only in their names and links."""
        value = self.cluster.nodes[node]
        return replace(value, name="any"), id((self.times or {}).get(value.name))

    @cached_property
    def owners(self) -> tuple[int, ...]:
        """Nodes that hold samples, in the order of their names; all nodes, if none states any."""
        holding = tuple(node for node in self.by_name if self.cluster.nodes[node].samples)
        return holding or self.by_name

    @cached_property
    def samples(self) -> Mapping[int, int]:
        """Data owner -> samples that it holds."""
        return {node: self.cluster.nodes[node].samples or USUAL_SAMPLES for node in self.owners}

    def share(self, nodes: Collection[int]) -> float:
        """Share of all samples that these nodes hold."""
        held = sum(self.samples.get(node, 0) for node in nodes)
        return held / sum(self.samples.values())

    def assumes(self, learns_from: Collection[int]) -> tuple[str, ...]:
        """Assumptions about samples and times of a method that learns from some nodes' samples."""
        phrases = [
            f"times of {name} were measured with batches of {times.batch_size} and are scaled"
            for name, times in sorted((self.times or {}).items())
            if times.batch_size != self.batch_size
        ]
        if not any(node.samples for node in self.cluster.nodes):
            phrases.append(f"every node holds {USUAL_SAMPLES:,} samples, since none says how many")
        else:
            out = [self.cluster.names[node] for node in self.owners if node not in learns_from]
            phrases += [f"not learnt from: the samples of {some(out)}"] if out else []
        return tuple(phrases)

    def layer_times(self, node: int, batch_size: int | None = None) -> LayerTimes:
        """Seconds by layer of a node at speed 1, for a batch; means over epochs with a cache."""
        key = node, batch_size or self.batch_size
        if key not in self._layer_times:
            times = self._timed(*key)
            self._layer_times[key] = self._over_epochs(times) if self.cache_frozen else times
        return self._layer_times[key]

    @cached_property
    def _layer_times(self) -> dict[tuple[int, int], LayerTimes]:
        return {}

    def _timed(self, node: int, size: int) -> LayerTimes:
        machine = self.cluster.nodes[node]
        measured = (self.times or {}).get(machine.name)
        if measured is None:
            assert machine.flops_per_s is not None
            bytes_per_s = machine.bytes_per_s or math.inf
            return _analytic(
                self.profile, machine.flops_per_s, bytes_per_s, machine.overhead_s, size
            )
        factor = size / measured.batch_size
        scaled = pl.col("forward_s", "backward_s") * factor
        return replace(measured, batch_size=size, table=measured.table.with_columns(scaled))

    def _over_epochs(self, times: LayerTimes) -> LayerTimes:
        """Mean times, with forward passes of the frozen layers at the front in some epochs."""
        frozen = pl.int_range(pl.len()) < self.frozen_layers
        share = 1 / self.epochs if self.frozen_share is None else self.frozen_share
        mean_s = pl.when(frozen).then(pl.col("forward_s") * share).otherwise("forward_s")
        return replace(times, table=times.table.with_columns(forward_s=mean_s))

    @cached_property
    def speeds(self) -> tuple[float, ...]:
        """Speeds of the nodes at the beginning."""
        return tuple(at_beginning(node.speed_over_time) for node in self.cluster.nodes)

    def batch_s(self, node: int, samples: int | None = None) -> float:
        """Seconds that a node takes to learn from a batch: forward, backward and update."""
        times = self.layer_times(node, samples)
        return (times.forward_s + times.backward_s + times.update_s) / self.speeds[node]

    def step_s(self, node: int, samples: int | None = None) -> float:
        """Seconds that a node takes for a step: its accumulated batches, and the update."""
        times = self.layer_times(node, samples)
        batches_s = self.accumulate * (times.forward_s + times.backward_s)
        return (batches_s + times.update_s) / self.speeds[node]

    @cached_property
    def sample_s(self) -> tuple[float, ...]:
        """Seconds of each node for one sample of a batch, without the update."""
        return tuple(
            (times.forward_s + times.backward_s) / self.speeds[node] / self.batch_size
            for node, times in enumerate(map(self.layer_times, range(len(self.cluster))))
        )

    @cached_property
    def routes(self) -> Routes:
        """How each node reaches the others."""
        return Routes(self.cluster, self.model_bytes)


@lru_cache(maxsize=1024)
def _analytic(
    profile: ModelProfile,
    flops_per_s: float,
    bytes_per_s: float,
    overhead_s: float,
    batch_size: int,
) -> LayerTimes:
    return LayerTimes.from_flops(
        profile,
        flops_per_s=flops_per_s,
        bytes_per_s=bytes_per_s,
        overhead_s=overhead_s,
        batch_size=batch_size,
    )
