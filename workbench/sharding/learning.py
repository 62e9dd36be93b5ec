"""Learning in sharded training: gradients of each node, and steps on its own shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from workbench.sharding.collectives import share
from workbench.sharding.schedules import Bucket, Compute
from workbench.training import Sgd
from workbench.training.data_parallel import ModelParts, WorkerReplica, WorkerStep

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(eq=False, kw_only=True)
class Replica:
    """A node's copy of the model.

    Layers are computed one by one in every stage, so that the weights have the same bits in all.
    Parameters that a node has dropped in stage 3 are NaN, so that nothing can be learnt from them.

    Attributes
    ----------
    worker
        Computes gradients of this node's batches, layer by layer.
    labels
        Labels that count in each iteration's batches, by node.
    reduced
        Mean gradients that this node owns, by bucket.
    """

    worker: WorkerReplica
    stage: int
    buckets: Sequence[Bucket]
    place: int  # among the nodes
    nodes: int
    sgd: Sgd
    labels: Sequence[Sequence[int]]
    reduced: dict[int, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        flat = self.worker.flat
        self._velocity = [self.sgd.start(flat.parameters[self.own(at)]) for at in self._places]
        if self.stage == 3:
            for bucket in self._places:
                self.drop(bucket)

    @property
    def _places(self) -> range:
        return range(len(self.buckets))

    def whole(self, bucket: int) -> slice:
        """A bucket in the model's vector."""
        layers = self.buckets[bucket]
        return self.worker.flat.layout.layers_slice(layers.first, layers.last)

    def own(self, bucket: int) -> slice:
        """Part of a bucket that this node updates: its share, or all of it in stage 0."""
        whole = self.whole(bucket)
        if not self.stage:
            return whole
        part = share(whole.stop - whole.start, self.nodes, self.place)
        return slice(whole.start + part.start, whole.start + part.stop)

    def parameters(self, bucket: int) -> Tensor:
        """Parameters of a bucket, as a view to be gathered into."""
        return self.worker.flat.parameters[self.whole(bucket)]

    def gradient(self, bucket: int) -> Tensor:
        """Gradient of a bucket, as a copy: the next step may begin before all have theirs."""
        return self.worker.flat.gradients[self.whole(bucket)].clone()

    def drop(self, bucket: int) -> None:
        """Drop the other nodes' shares of a bucket's parameters."""
        own, whole = self.own(bucket), self.whole(bucket)
        self.worker.flat.parameters[whole.start : own.start] = float("nan")
        self.worker.flat.parameters[own.stop : whole.stop] = float("nan")

    def compute(self, iteration: int, work: Compute) -> WorkerStep | ModelParts | None:
        """Do a computation of an iteration; return what is to be recorded."""
        bucket = self.buckets[work.bucket]
        if work.lane == "update":
            return self._update(iteration)
        if work.lane == "forward":
            self.worker.forward(iteration, bucket.first, bucket.last)
            if self.stage == 3 and not bucket.is_tied and work.bucket < self._places[-1]:
                self.drop(work.bucket)
            return None
        loss = self.worker.backward(iteration, bucket.first, bucket.last)
        if self.stage == 3:
            kept = [at for at in self._places if self.buckets[at].is_tied]
            for place in (work.bucket, *kept) if work.bucket == 0 else {work.bucket} - {*kept}:
                self.drop(place)
        return None if loss is None else self.worker.step_of(iteration, loss)

    def warm_up(self) -> None:
        """Compute the first gradient; what is dropped counts as 0."""
        parameters = self.worker.flat.parameters
        before = parameters.clone()
        parameters.nan_to_num_()
        self.worker.try_out()
        parameters.copy_(before)

    def _update(self, iteration: int) -> ModelParts | None:
        """Step on what this node owns; at the end of an epoch, return its share of the model."""
        parameters = self.worker.flat.parameters
        for bucket, gradient in self.reduced.items():
            self.sgd.step(parameters[self.own(bucket)], gradient, self._velocity[bucket])
        self.reduced.clear()
        if iteration + 1 not in self.worker.epoch_ends:
            return None
        owns = self.stage or not self.place  # in stage 0 all nodes have the same
        parts = [self.own(bucket) for bucket in self._places] if owns else []
        return ModelParts([(part, parameters[part]) for part in parts])
