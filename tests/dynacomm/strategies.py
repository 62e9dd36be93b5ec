"""Random chains of layers, the awkward ones included."""

from collections.abc import Iterable

from hypothesis import strategies as st
from numpy.typing import ArrayLike

from workbench.dynacomm import LayerCosts

# Whole numbers make ties and zeros frequent; floats make sums round; both go far apart in size.
SECONDS = st.one_of(
    st.integers(0, 4).map(float),
    st.floats(0, 10, allow_subnormal=False),
    st.floats(1e-9, 1e6),
)
OVERHEADS = st.one_of(st.just(0.0), st.floats(0, 5, allow_subnormal=False), st.just(1e12))


def costs_of(vectors: Iterable[ArrayLike], overhead_s: float) -> LayerCosts:
    """Costs of four vectors in their order: pull, forward, backward, push."""
    pull_s, forward_s, backward_s, push_s = vectors
    return LayerCosts(pull_s, forward_s, backward_s, push_s, overhead_s)


@st.composite
def layer_costs(draw: st.DrawFn, max_layers: int) -> LayerCosts:
    """Costs of 1 to `max_layers` layers."""
    layers = draw(st.integers(1, max_layers))
    vectors = [draw(st.lists(SECONDS, min_size=layers, max_size=layers)) for _ in range(4)]
    return costs_of(vectors, draw(OVERHEADS))
