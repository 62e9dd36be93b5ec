"""Loaders of corpora by made-up tables, a predicted row of each by hand, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from workbench.comparison.validation.corpora import CORPORA, adaptdl, gavel, vtrain
from workbench.comparison.validation.corpus import hashed
from workbench.comparison.validation.networks import NETWORKS, gradient_buckets
from workbench.utils.checks import UserError

ADAPTDL = """model,placement,nodes,replicas,local_batch,step_s
bert,1,1,1,4,0.5
bert,11,2,2,4,0.9
bert,12,2,3,4,1.1
bert,111,3,3,4,0.8
"""
GAVEL = """gpu,same_server,model,batch_per_worker,workers,step_s
p100,true,LM,5,1,0.01
p100,false,LM,5,1,0.02
p100,false,LM,5,2,0.05
p100,true,LM,5,8,0.06
v100,true,LM,5,1,0.02
v100,true,LM,5,2,0.06
k80,true,A3C,,1,0.3
"""
FLASH = """phone,layer,in_size,out_size,batch,steps,seconds
Toy,lstm,100,50,5,8,0.4
Toy,output,100,50,5,8,0.2
Toy,embedding,100,50,5,8,0.1
"""
SAILOR = """plan,model,layers,stages,dp,tp,mbs,gbs,microbatches,use_step,step_s
toy,OPT-350,0-1;2-3,2,2,4,2,12,3,1,5.0
void,OPT-350,0-3,1,1,4,2,12,3,0,5.0
"""
SAILOR_TABLES = {
    "sailor_profiles.csv": ["model,gpu,mbs,tp,layer,forward_s,backward_s,update_s"]
    + [f"OPT-350,GH-96,2,4,{layer},0.25,0.5,0.1" for layer in range(4)],
    "sailor_layers.csv": ["model,tp,layer,parameters,output_floats,input_floats,kept_floats"]
    + [f"OPT-350,4,{layer},1000000,2097152,2097152,1" for layer in range(4)],
    "sailor_links.csv": [
        "scope,zone_a,gpu_a,gpus_a,zone_b,gpu_b,gpus_b,c2,c1,c0,max_bytes_per_s",
        "inter_node,us-central1-a,GH-96,4,us-central1-a,GH-96,4,0,0,1,2000000000",
    ],
}
VTRAIN = """row,parameters_b,gpus,tp,dp,pp,global_batch,micro_batch,microbatches,\
layers,hidden,heads,sequence,step_ms
0,0.1,8,2,2,2,12,2,3,4,1024,16,512,1000
1,0.1,8,1,8,1,16,2,1,4,1024,16,512,1000
""".replace("\\\n", "")
TABLES = {"adaptdl": ADAPTDL, "gavel": GAVEL, "flash": FLASH, "sailor": SAILOR, "vtrain": VTRAIN}


def read(folder: Path, name: str, text: str | None = None) -> pl.DataFrame:
    corpus = CORPORA[name]
    (folder / corpus.file).write_text(TABLES[name] if text is None else text)
    return corpus.read(folder)


def test_a_row_of_adaptdl_by_hand(tmp_path: Path) -> None:
    rows = read(tmp_path, "adaptdl")
    assert rows["compute_s"].to_list() == [0.5] * 3
    constants = {
        "server_gbytes_per_s": 3.0,
        "stream_gbytes_per_s": 0.5,
        "pair_over_stream": 0.5,
        "server_us": 0.0,
        "stream_us": 1e3,
        "first_gradient": 1.0,
    }
    whole = sum(bucket.size_bytes for bucket in gradient_buckets("bert"))
    count = len(gradient_buckets("bert"))
    seconds = CORPORA["adaptdl"].predict(rows, constants)
    by_placement = dict(zip(rows["placement"], seconds, strict=True))
    assert by_placement["11"] == pytest.approx(0.5 + whole / 0.25e9 + count * 2 * 1e-3)
    assert by_placement["111"] == pytest.approx(0.5 + 4 / 3 * whole / 0.5e9 + count * 4 * 1e-3)


def test_replicas_wait_for_the_largest_images(tmp_path: Path) -> None:
    rows = read(tmp_path, "adaptdl", ADAPTDL.replace("bert", "yolov3"))
    free = {name: high for name, (_, _, high) in adaptdl.CORPUS.constants.items()}
    free |= {"server_us": 0, "stream_us": 0, "stream_gbytes_per_s": 1e9}
    areas = np.square(adaptdl.IMAGE_SIDES)
    pairs = np.maximum(areas[:, None], areas[None, :]).mean() / areas.mean()
    assert adaptdl.predict(rows, free)[0] == pytest.approx(0.5 * pairs, rel=1e-6)


def test_a_row_of_gavel_by_hand(tmp_path: Path) -> None:
    rows = read(tmp_path, "gavel")
    assert rows["place"].to_list() == ["p100 spread", "p100 in two servers", gavel.APART]
    assert rows["role"].to_list()[-1] == "apart"
    assert rows["compute_s"].to_list() == [0.01, 0.01, 0.02]  # of the worker in one server
    constants = {f"{place} gbytes_per_s": 2.0 for place in gavel.places(rows)}
    seconds = gavel.predict(rows, constants)
    whole = 4 * sum(layer.parameters for layer in NETWORKS["LM"]())
    assert seconds == pytest.approx(
        [0.01 + whole / 2e9, 0.01 + 1.75 * whole / 2e9, 0.02 + whole / 2e9]
    )


def test_a_row_of_flash_by_hand(tmp_path: Path) -> None:
    constants = {
        "Toy overhead_us": 1e4,
        "Toy gflops": 2.0,
        "Toy gbytes_per_s": 0.5,
        "lstm passes": 3.0,
        "lstm passes a step": 2.0,
        "output passes": 7.0,
        **{f"{layer} output passes": 10.0 for layer in ("lstm", "output", "embedding")},
    }
    lstm, output, embedding = CORPORA["flash"].predict(read(tmp_path, "flash"), constants)
    outputs_s = 10 * 4 * 5 * 8 * 50 / 0.5e9
    parameters = 4 * (100 * 50 + 50 * 50)
    moved_s = (3 + 2 * 8) * 4 * parameters / 0.5e9
    assert lstm == pytest.approx(9 * 0.01 + 6 * 40 * parameters / 2e9 + moved_s + outputs_s)
    moved_s = 7 * 4 * 5000 / 0.5e9
    assert output == pytest.approx(0.01 + 6 * 40 * 5000 / 2e9 + moved_s + outputs_s)
    assert embedding == pytest.approx(0.01 + 5 * 4 * 5000 / 0.5e9 + outputs_s)


def test_a_row_of_sailor_by_hand(tmp_path: Path) -> None:
    for name, lines in SAILOR_TABLES.items():
        (tmp_path / name).write_text("\n".join(lines))
    rows = read(tmp_path, "sailor")
    assert rows["plan"].to_list() == ["toy"]
    message_s = 4 * 2 * 2048 * 1024 / 1e9  # a micro-batch of two samples at 1 GB/s
    # Two stages of 0.5 s forward and 1 s backward, three micro-batches, blocking messages: the
    # second stage waits for the first forward pass, the first one for the last backward pass.
    steady_s = 3 * 1.5 + 0.5 + 1.0
    share_s = 2 * 4 * 4 * 2e6 / 2 / 1e9  # all-reduce between two replicas of two layers
    update_s = 0.1 * 2 / 4
    predicted_s = CORPORA["sailor"].predict(rows, {})[0]
    assert predicted_s == pytest.approx(steady_s + share_s + update_s, abs=6 * message_s)
    assert predicted_s > steady_s + 2 * message_s + share_s + update_s - 1e-9
    assert rows["compute_s"].to_list() == [4.5]


def test_a_row_of_vtrain_by_hand(tmp_path: Path) -> None:
    pipeline, data_parallel = read(tmp_path, "vtrain").iter_rows(named=True)
    rates = vtrain.Roofline(1e14, 1e12)
    b, s, h = 2, 512, 1024
    products = 24 * b * s * h * h + 4 * b * s * s * h
    moved = s * b * h * 34 + 5 * 16 * s * s * b
    forward_s = products / 1e14 + moved / 1e12
    assert vtrain.block_s(data_parallel, rates) == pytest.approx((forward_s, 3 * forward_s))
    logits_s = 2 * b * s * h * 50_257 / 1e14
    gradient_bytes = 2 * (12 * h * h * 4 + 50_257 * h)
    reduce_s = 2 * 7 / 8 * gradient_bytes / (100e9 / 8)
    step_s = 4 * 4 * forward_s + 3 * logits_s + reduce_s
    assert vtrain.step_s(data_parallel, rates) == pytest.approx(step_s)
    tensor_s = 2 * 2 * 1 / 2 * 2 * b * s * h / 235e9  # two all-reduces between two GPUs
    split_s = products / 2 / 1e14 + (s * b * h * 22 + 5 * 16 * s * s * b / 2) / 1e12 + tensor_s
    assert vtrain.block_s(pipeline, rates)[0] == pytest.approx(split_s)


def test_one_key_in_ten_is_fitted_on_and_half_of_them_are_in_either_half() -> None:
    keys = [f"bert,{number},4" for number in range(2000)]
    assert sum(hashed(key) % 10 == 0 for key in keys) / len(keys) == pytest.approx(0.1, abs=0.02)
    assert sum(hashed(key) // 10 % 2 for key in keys) / len(keys) == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("step_s", "step_ms", "lacks the column step_s; it has .*step_ms"),
        ("replicas", "gpus", "lacks the column replicas; it has model, placement.*petuum/adaptdl"),
        ("0.9", "900", "line 3: step_s is 900.0; it is in seconds, above 0 and at most 60"),
        ("0.9", "0", "line 3: step_s is 0.0"),
        ("0.9", "0.9 s", "numbers have a point and no unit"),
        ("bert,1,", "bart,1,", "bert has no row of one GPU with a local batch of 4; add it"),
        (ADAPTDL, FLASH, "lacks the column model"),
        (ADAPTDL, "", "is not a table in CSV"),
    ],
)
def test_other_tables_are_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read(tmp_path, "adaptdl", ADAPTDL.replace(old, new, 1))


def test_a_role_that_is_not_of_its_key_is_refused(tmp_path: Path) -> None:
    head, *lines = ADAPTDL.splitlines()
    right = [
        "given",
        *("fit" if hashed(key_of(line)) % 10 == 0 else "predict" for line in lines[1:]),
    ]
    good = [f"{head},role", *(f"{line},{role}" for line, role in zip(lines, right, strict=True))]
    read(tmp_path, "adaptdl", "\n".join(good))
    wrong = [*good[:2], good[2].rpartition(",")[0] + ",given", *good[3:]]
    with pytest.raises(UserError, match="line 3: the role is 'given', but by its key"):
        read(tmp_path, "adaptdl", "\n".join(wrong))


def key_of(line: str) -> str:
    model, placement, _, _, batch, _ = line.split(",")
    return f"{model},{placement},{batch}"


def test_missing_table_says_where_the_numbers_are(tmp_path: Path) -> None:
    for name in TABLES:
        with pytest.raises(UserError, match=r"there is no such file\. The numbers stand in"):
            CORPORA[name].read(tmp_path)


@pytest.mark.parametrize(
    ("network", "millions"),
    [
        *[("bert", 109.48), ("cifar10", 11.17), ("deepspeech2", 41.19), ("imagenet", 25.56)],
        *[("ncf", 1.603), ("yolov3", 61.63), ("LM", 13.99), ("Transformer", 47.24)],
    ],
)
def test_networks_have_their_published_parameters(network: str, millions: float) -> None:
    assert total(NETWORKS[network]()) / 1e6 == pytest.approx(millions, rel=0.005)
    assert gradient_buckets(network)[-1].ready == pytest.approx(1)


def total(layers: Sequence[tuple[float, float]]) -> float:
    return sum(parameters for parameters, _ in layers)
