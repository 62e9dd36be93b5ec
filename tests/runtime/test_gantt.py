import json
import re
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.refusals import refusals
from workbench import figures
from workbench.runtime import Span, Trace
from workbench.runtime.gantt import PHASES

SVG = "{http://www.w3.org/2000/svg}"


def trace(layers: int, nodes: tuple[str, ...] = ("worker",), layer_s: float = 0.01) -> Trace:
    """Pull, then compute each layer; every second layer takes three times as long."""
    spans = []
    for node in nodes:
        pulled_s = done_s = 0.0
        for layer in range(layers):
            length_s = layer_s * (1 + 2 * (layer % 2))
            times_s = pulled_s, pulled_s + length_s
            spans.append(Span(node, "pull", f"{layer + 1}", *times_s, 4096, "transfer"))
            pulled_s += length_s
            start_s = max(pulled_s, done_s)
            done_s = start_s + length_s
            spans.append(Span(node, "forward", f"{layer + 1}", start_s, done_s))
    return Trace.of(spans)


def drawn(picture: str, mark: str) -> list[ElementTree.Element]:
    """Elements of the marks of one kind, axes and legends left out."""
    return [
        element
        for group in ElementTree.fromstring(picture).iter(f"{SVG}g")
        if re.fullmatch(rf"mark-{mark} role-mark.*", group.get("class", ""))
        for element in group
    ]


def test_every_span_is_a_bar_of_its_length_in_its_lane() -> None:
    recorded = trace(4)
    bars = drawn(figures.svg(recorded.gantt()), "rect")
    boxes = [
        tuple(map(float, re.findall(r"^M([\d.]+),([\d.]+)h([\d.]+)v", bar.get("d", ""))[0]))
        for bar in bars
    ]
    assert len(boxes) == 8
    frame = recorded.frame
    per_s = boxes[0][2] / 0.01
    for (left, _, width), start_s, end_s in zip(
        boxes, frame["start_s"], frame["end_s"], strict=True
    ):
        assert left - boxes[0][0] == pytest.approx(start_s * per_s, abs=0.02)
        assert width == pytest.approx((end_s - start_s) * per_s, abs=0.02)
    tops = [{top for _, top, _ in boxes[lane::2]} for lane in (0, 1)]
    assert all(len(top) == 1 for top in tops)
    assert min(tops[0]) < min(tops[1])
    assert len({bar.get("fill") for bar in bars}) == 2


def test_few_spans_bear_their_labels_where_there_is_room() -> None:
    labels = [text.text for text in drawn(figures.svg(trace(4).gantt()), "text")]
    assert sorted(filter(None, labels)) == sorted("11223344")
    spans = [Span("n", "pull", "a long label", 0, 0.01), Span("n", "pu\"ll'", 'a"b', 0.01, 1)]
    assert [text.text for text in drawn(figures.svg(Trace.of(spans).gantt()), "text")] == ['a"b']


def test_many_spans_have_no_labels_and_alternate_in_shade() -> None:
    picture = figures.svg(trace(152).gantt())
    assert drawn(picture, "text") == []
    bars = drawn(picture, "rect")
    assert len(bars) == 304
    assert len({bar.get("opacity") for bar in bars}) == 2
    assert len({bar.get("opacity") for bar in bars[::4]}) == 1


def encoding(recorded: Trace, **options: Any) -> Any:
    return recorded.gantt(**options).to_dict()["layer"][0]["encoding"]


def test_rows_name_the_node_where_there_are_several() -> None:
    rows = encoding(trace(2, ("edge", "cloud")))["y"]["scale"]["domain"]
    assert rows == ["edge · pull", "edge · forward", "cloud · pull", "cloud · forward"]
    assert encoding(trace(2))["y"]["scale"]["domain"] == ["pull", "forward"]


@pytest.mark.parametrize(("layer_s", "unit"), [(1.0, "s"), (0.01, "ms"), (1e-6, "µs")])
def test_the_unit_suits_the_length(layer_s: float, unit: str) -> None:
    recorded = trace(4, layer_s=layer_s)
    x = encoding(recorded)["x"]
    assert x["title"] == f"time ({unit})"
    in_unit = {"s": 1, "ms": 1e3, "µs": 1e6}[unit]
    assert x["scale"]["domain"] == pytest.approx([0, recorded.end_s * in_unit])


@pytest.mark.parametrize(("colour", "kinds"), [("lane", 5), ("label", 3), ("node", 2), ("kind", 2)])
def test_colour_tells_what_is_asked(colour: str, kinds: int) -> None:
    scale = encoding(trace(3, ("a", "b")), colour=colour)["color"]["scale"]
    assert len(scale["domain"]) == kinds
    assert scale["range"] == list(figures.PALETTE[:kinds])


def test_labels_are_drawn_in_ink_that_shows() -> None:
    inks = {
        str(text.text): text.get("fill")
        for text in drawn(figures.svg(trace(2).gantt(colour="label")), "text")
    }
    assert inks == {"1": "white", "2": figures.INK}  # on dark blue and on orange


def test_a_common_end_and_a_title() -> None:
    spec = trace(2).gantt(end_s=5.0, title="DynaComm, simulated").to_dict()
    assert spec["layer"][0]["encoding"]["x"]["scale"]["domain"] == [0, 5.0]
    assert spec["title"] == "DynaComm, simulated"


test_refused = refusals(
    trace(2).gantt,
    {},
    {
        "colour": {"unknown colouring 'lanes'. Did you mean 'lane'": ["lanes"]},
        "end_s": {
            r"end_s is 0\.01, but the trace runs until": [0.01],
            "end_s is nan": [float("nan")],
        },
    },
)


@pytest.mark.parametrize(("size_bytes", "shown"), [(0, False), (7, True)])
def test_bytes_are_shown_where_there_are_any(size_bytes: int, shown: bool) -> None:
    trace = Trace.of([Span("node", "lane", "span", 0.0, 1.0, size_bytes)])
    assert ('"bytes"' in json.dumps(encoding(trace))) == shown


def test_values_keep_their_colours_from_chart_to_chart() -> None:
    both, one = trace(2), Trace.of([Span("node", "forward", "1", 0.0, 1.0)])
    order = ("push", "pull", "forward")
    scales = [encoding(of, order=order)["color"]["scale"] for of in (both, one)]
    assert scales[0] == scales[1]
    assert scales[0]["domain"] == list(order)
    labelled = encoding(both, colour="label", order=("2", "3"))["color"]
    assert labelled["scale"]["domain"] == ["2", "3", "1"]
    assert labelled["legend"]["values"] == ["2", "1"]


@pytest.mark.parametrize("lanes", [("pull", "forward", "backward", "push"), ("backward", "send")])
def test_a_phase_has_one_colour_everywhere(lanes: tuple[str, ...]) -> None:
    spans = [Span("node", lane, "1", float(at), at + 1.0) for at, lane in enumerate(lanes)]
    scale = encoding(Trace.of(spans))["color"]["scale"]
    colours = dict(zip(scale["domain"], scale["range"], strict=True))
    assert [colours[phase] for phase in PHASES] == list(figures.PALETTE[: len(PHASES)])
