"""Training within a memory budget, beside plain PyTorch and PyTorch's own budget for activations.

``python benchmarks/memory_budgets.py`` trains 20 networks, and four of transformers where it is
installed, within 75, 50 and 35 % of the most bytes that a step of plain PyTorch holds; names choose
some. A row says: whether the most bytes counted while a step runs were within the budget, and the
step equal to PyTorch's bit for bit; what was foretold; and how many times as long as plain steps
take steps of ours, and of ``torch.compile`` (aot_eager) at the largest
``activation_memory_budget``, in tenths, whose counted peak is within the same bytes. Or
what is the least, where the budget is refused.

Status 1 if a peak is above its budget, if numbers differ, or if ours is slower than PyTorch's in
more than a fifth of the cases. Seconds are of the processor's clock, so that what else runs counts
little; bytes are all that is allocated: parameters, state, and inputs, too.
"""

from __future__ import annotations

import copy
import importlib
import statistics
import sys
from collections.abc import Callable, Iterator
from functools import partial
from time import process_time
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch._functorch import config as functorch

from workbench import memory, training
from workbench.memory.fitting.loss import usual_loss
from workbench.memory.fitting.planning import storage_bytes
from workbench.memory.measured import allocations
from workbench.memory.recomputation import BudgetError
from workbench.profiles.recorder import tensors_in
from workbench.zoo import MODELS, build

SHARES = (0.75, 0.5, 0.35)
PARTS = 10
"""That PyTorch's own budget is counted in, of the activations that it would keep."""
ROUNDS, BAR = 5, 0.8

ZOO = {
    "lenet5_cifar": 256,
    "cifarnet": 64,
    "cipher": 64,
    "alexnet_small": 128,
    "resnet20_cifar": 64,
    "squeezenet_cifar": 32,
    "squeezenet": 4,
    "mobilenet_v1_cifar": 8,
    "mobilenet_v2_cifar": 8,
    "mobilenet_v2": 2,
    "googlenet": 4,
    "resnet18": 8,
    "resnet50": 4,
    "inception_v3": 2,
    "vit_tiny_cifar": 64,
    "vit_tiny": 4,
    "gpt_tiny": 64,
    "bert_tiny": 16,
}


class Case(NamedTuple):
    """A network with inputs by name or in their order, a loss, and an optimiser's name."""

    module: nn.Module
    inputs: Any
    loss: Callable[[Any], Tensor]
    optimizer: str


def cases() -> Iterator[tuple[str, Callable[[], Case]]]:
    yield from ((name, partial(of_zoo, name, batch)) for name, batch in ZOO.items())
    yield "perceptron", perceptron
    yield "encoder", encoder
    try:
        transformers = importlib.import_module("transformers")
    except ImportError:
        return
    yield from of_transformers(transformers)


def classes_loss(y: Tensor, scores: Tensor) -> Tensor:
    return nn.functional.cross_entropy(scores.flatten(0, -2), y.flatten())


def of_zoo(name: str, batch: int) -> Case:
    about, module = MODELS[name], build(name, "cpu")
    if about.input_dtype == "int64":
        x = torch.randint(0, 16, (batch, *about.input_shape))
    else:
        x = torch.randn(batch, *about.input_shape)
    with torch.no_grad():
        scores = module(x)
    y = torch.randint(0, about.classes, tuple(scores.shape[:-1]))
    optimizer = "adamw" if name.startswith(("vit", "gpt", "bert")) else "momentum"
    return Case(module, (x,), partial(classes_loss, y), optimizer)


def perceptron() -> Case:
    layers = [one for _ in range(8) for one in (nn.Linear(256, 256), nn.GELU(), nn.Dropout(0.1))]
    y = torch.randint(0, 10, (2048,))
    module = nn.Sequential(*layers, nn.Linear(256, 10))
    return Case(module, (torch.randn(2048, 256),), partial(classes_loss, y), "adamw")


def encoder() -> Case:
    layer = nn.TransformerEncoderLayer(64, 4, 256, batch_first=True)
    module = nn.Sequential(nn.TransformerEncoder(layer, 4), nn.Linear(64, 16))
    y = torch.randint(0, 16, (16, 128))
    return Case(module, (torch.randn(16, 128, 64),), partial(classes_loss, y), "adamw")


def of_transformers(transformers: Any) -> Iterator[tuple[str, Callable[[], Case]]]:
    """Small networks of random weights, which return the loss themselves."""
    transformers.logging.set_verbosity_error()
    usual = {"hidden_size": 128, "intermediate_size": 344, "num_hidden_layers": 4,
             "num_attention_heads": 4, "vocab_size": 512}  # fmt: skip
    gpt = {"n_layer": 4, "n_embd": 128, "n_head": 4, "vocab_size": 512, "use_cache": False}
    t5 = {"d_model": 128, "d_ff": 344, "num_layers": 2, "num_heads": 4, "vocab_size": 512}
    kinds = {
        "GPT2LMHeadModel": transformers.GPT2Config(**gpt),
        "LlamaForCausalLM": transformers.LlamaConfig(**usual, use_cache=False),
        "BertForMaskedLM": transformers.BertConfig(**usual),
        "T5ForConditionalGeneration": transformers.T5Config(
            **t5, use_cache=False, decoder_start_token_id=0, pad_token_id=0
        ),
    }
    for name, config in kinds.items():
        yield name, partial(of_tokens, getattr(transformers, name), config)


def of_tokens(make: Callable[[Any], nn.Module], config: Any) -> Case:
    tokens = torch.randint(1, 512, (8, 128))
    return Case(make(config), {"input_ids": tokens, "labels": tokens}, usual_loss, "adamw")


class Trainer:
    """A loop as anybody writes it, around a module or what was made of one."""

    def __init__(self, case: Case, module: nn.Module, called: Callable[..., Any]) -> None:
        self.case, self.module, self.called = case, module, called
        self.optimizer: torch.optim.Optimizer = (
            torch.optim.AdamW(module.parameters(), 1e-4)
            if case.optimizer == "adamw"
            else torch.optim.SGD(module.parameters(), 1e-4, momentum=0.9)
        )

    def step(self) -> None:
        """Forward, backward, update."""
        inputs = self.case.inputs
        returned = self.called(**inputs) if isinstance(inputs, dict) else self.called(*inputs)
        loss = self.case.loss(returned)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.optimizer.zero_grad()

    def peak(self) -> int:
        """Most bytes held in a second step."""
        self.step()
        held = [*self.module.parameters(), *self.module.buffers()]
        held += tensors_in((self.case.inputs, [*self.optimizer.state.values()]))
        (allocated,) = allocations([self.step])
        return storage_bytes(held) + allocated

    def seconds(self) -> float:
        """Of the processor's clock, that a step takes."""
        began_s = process_time()
        self.step()
        return process_time() - began_s


def plain(case: Case) -> Trainer:
    module = copy.deepcopy(case.module)
    return Trainer(case, module, module)


def theirs(case: Case, part: int) -> Trainer:
    """PyTorch's own, compiled at the first step; one at a time, as its budget is global."""
    module = copy.deepcopy(case.module)
    torch._dynamo.reset()
    functorch.activation_memory_budget = part / PARTS
    trainer = Trainer(case, module, torch.compile(module, backend="aot_eager"))
    trainer.step()
    return trainer


def most_within(case: Case, peaks: dict[int, int], size_bytes: int) -> int | None:
    """The largest budget of PyTorch's own, in parts, whose peak is within bytes; `peaks` are kept.

    All are tried in turn: less kept is no smaller peak where all is computed again at once.
    """
    for part in range(PARTS, -1, -1):
        if part not in peaks:
            peaks[part] = theirs(case, part).peak()
        if peaks[part] <= size_bytes:
            return part
    return None


def same_step(one: Trainer, other: Trainer) -> bool:
    """Whether a step from the same weights gives the same, statistics included."""
    other.module.load_state_dict(one.module.state_dict())
    other.optimizer.load_state_dict(copy.deepcopy(one.optimizer.state_dict()))
    for trainer in (one, other):
        torch.manual_seed(1)
        trainer.step()
    pairs = zip(one.module.state_dict().values(), other.module.state_dict().values(), strict=True)
    return all(torch.equal(*pair) for pair in pairs)


def table(name: str, make: Callable[[], Case]) -> list[tuple[bool, bool | None]]:
    """A row for each budget: whether all is right; whether ours is as fast, if PyTorch's fits."""
    torch.manual_seed(0)
    case = make()
    own = plain(case)
    whole = own.peak()
    peaks: dict[int, int] = {}
    return [row(name, own, whole, share, peaks) for share in SHARES]


def row(
    name: str, own: Trainer, whole: int, share: float, peaks: dict[int, int]
) -> tuple[bool, bool | None]:
    """One budget; `peaks` are of PyTorch's own budgets that were tried."""
    case = own.case
    part = most_within(case, peaks, int(share * whole))
    text = f"{name}, {share:.0%} of {whole / 1e6:,.1f} MB"
    try:
        module = memory.fit(
            copy.deepcopy(case.module),
            case.inputs,
            int(share * whole),
            loss=case.loss,
            optimizer=case.optimizer,
        )
    except BudgetError as error:
        reached = "" if part is None else "; PyTorch's own is within it"
        least = (error.found_bytes or 0) / whole
        print(f"{verdict(part is None)} {text}: refused, the least is {least:.0%}{reached}")
        return part is None, None
    ours = Trainer(case, module, module)
    peak, is_same = ours.peak(), same_step(own, ours)
    right = peak <= share * whole and is_same
    others = [ours] if part is None else [ours, theirs(case, part)]
    turns = [[one.seconds() for one in (own, *others)] for _ in range(ROUNDS)]
    ratios = [statistics.median(turn[at] / turn[0] for turn in turns) for at in (1, len(others))]
    fast = part is None or ratios[0] <= ratios[1]
    other = "not within" if part is None else f"{ratios[1]:.2f} x at {part}/{PARTS}"
    print(
        f"{verdict(right and fast)} {text}: held {peak / whole:.1%}, "
        f"{'the same' if is_same else 'OTHER'} bits, "
        f"{module.fit.step_s / module.fit.once_s:.2f} x foretold; ours {ratios[0]:.2f} x, "
        f"PyTorch's {other}",
        flush=True,
    )
    return right, fast


def verdict(good: bool) -> str:
    return "met   " if good else "MISSED"


def main() -> int:
    asked = sys.argv[1:]
    rows: list[tuple[bool, bool | None]] = []
    with training.fixed_threads():
        for name, make in cases():
            if not asked or name in asked:
                rows += table(name, make)
    fast = [fast for _, fast in rows if fast is not None]
    right = all(right for right, _ in rows)
    print(
        f"{len(rows)} budgets, {len(fast)} kept, {len(rows) - len(fast)} refused; ours as fast as "
        f"PyTorch's own, or alone within, in {sum(fast)} of {len(fast)}"
    )
    return int(not right or sum(fast) < BAR * len(fast))


if __name__ == "__main__":
    sys.exit(main())
