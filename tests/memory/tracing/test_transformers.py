"""Models of others: those of the package transformers, small, with random weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
import transformers
from torch import Tensor, nn

from tests.long import usually
from tests.memory.tracing.test_functional import check_step, same
from workbench.memory import trace
from workbench.memory.executor import run
from workbench.memory.tracing.functional import default_loss
from workbench.profiles import profile_model
from workbench.profiles.recorder import tensors_in
from workbench.training.pieces import cut
from workbench.zoo import MODELS as ZOO

VOCABULARY, LENGTH = 97, 8
_SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
_SIZES |= {"num_attention_heads": 4, "vocab_size": VOCABULARY, "pad_token_id": 0}
_ENDS = {"bos_token_id": 0, "eos_token_id": 0}


class Foreign(NamedTuple):
    make: Callable[[], Any]
    inputs: str


def gpt2() -> Any:
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=64, n_embd=32, n_layer=2, n_head=2, **_ENDS
    )
    return transformers.GPT2LMHeadModel(config)


def llama() -> Any:
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**_SIZES, **_ENDS, num_key_value_heads=2)
    )


def bert() -> Any:
    return transformers.BertForMaskedLM(transformers.BertConfig(**_SIZES))


def classes() -> Any:
    return transformers.BertForSequenceClassification(transformers.BertConfig(**_SIZES))


def t5() -> Any:
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
    config = transformers.T5Config(vocab_size=VOCABULARY, decoder_start_token_id=0, **sizes)
    return transformers.T5ForConditionalGeneration(config)


MODELS = {
    "gpt2": Foreign(gpt2, "int64[8]"),
    "llama": Foreign(llama, "int64[8]"),
    "llama, masked": Foreign(llama, "input_ids=int64[8],attention_mask=int64[8]"),
    "bert": Foreign(bert, "int64[8]"),
    "bert, masked": Foreign(bert, "input_ids=int64[8],attention_mask=int64[8]"),
    "classes": Foreign(classes, "int64[8]"),
    "t5": Foreign(t5, "input_ids=int64[8],decoder_input_ids=int64[8]"),
}
each_model = pytest.mark.parametrize(
    "name", usually(("gpt2", "llama, masked", "bert, masked", "classes", "t5"), MODELS)
)


def made(name: str) -> tuple[nn.Module, dict[str, Tensor]]:
    """A model, and a batch of tokens for each of its inputs; of a mask, all but the last."""
    torch.manual_seed(0)
    module: nn.Module = MODELS[name].make()
    names = [part.partition("=int64")[0] for part in MODELS[name].inputs.split(",")]
    tokens = {key: torch.randint(VOCABULARY, (3, LENGTH)) for key in names}
    if "attention_mask" in tokens:
        tokens["attention_mask"] = torch.ones(3, LENGTH, dtype=torch.int64)
        tokens["attention_mask"][:, -1] = 0
    return module, tokens


def called(module: nn.Module, tokens: dict[str, Tensor]) -> Any:
    return module(**tokens) if "input_ids" in tokens else module(*tokens.values())


@each_model
def test_inference_is_the_models_own(name: str) -> None:
    module, tokens = made(name)
    graph = trace(module, MODELS[name].inputs, 3)
    with torch.no_grad():
        wanted = called(module.eval(), tokens)
    same(run(graph, tuple(tokens.values()))[: len(tensors_in(wanted))], tensors_in(wanted))


@each_model
def test_a_step_is_sgds_own(name: str) -> None:
    module, tokens = made(name)
    graph = trace(module, MODELS[name].inputs, 3, training=True)
    target = torch.randint(2, graph.inputs[-1].shape)

    def loss() -> Tensor:
        found = default_loss(called(module.train(), tokens), target)
        assert found.item() < 2 * math.log(VOCABULARY)  # a cross entropy
        return found

    check_step(graph, (*tokens.values(), target), module, loss)


@each_model
def test_every_cut_has_the_models_bits(name: str) -> None:
    module, tokens = made(name)
    pieces = cut(module.eval(), MODELS[name].inputs)
    profile = profile_model(module, MODELS[name].inputs)
    assert pieces.layers == profile.layers
    assert list(pieces.crossing_bytes) == profile.table["output_bytes"].to_list()[:-1]
    given = tuple(tokens.values())
    with torch.no_grad():
        wanted = tensors_in(called(module, tokens))
        for last in range(1, len(pieces)):
            found = pieces.run(last + 1, len(pieces), pieces.run(1, last, given))
            same(found, wanted)


def test_gpt2_of_the_zoo_costs_what_theirs_does() -> None:
    """Layer by layer: parameters, outputs and FLOPs of both passes; the last has no dropout."""
    config = transformers.GPT2Config(bos_token_id=0, eos_token_id=0)
    with torch.device("meta"):
        theirs = profile_model(transformers.GPT2LMHeadModel(config), "int64[1024]")
    ours = profile_model("gpt2")
    columns = ("param_bytes", "param_tensors", "output_bytes", "forward_flops", "backward_flops")
    assert ours.table.select(columns).equals(theirs.table.select(columns))


def test_vit_of_the_zoo_has_their_parameters() -> None:
    with torch.device("meta"):
        theirs = transformers.ViTForImageClassification(transformers.ViTConfig(num_labels=1000))
    assert sum(p.numel() for p in theirs.parameters()) == ZOO["vit_b_16"].parameters
