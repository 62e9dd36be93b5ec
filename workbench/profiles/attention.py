"""PyTorch's attention of several heads as the calls that it is made of.

`torch.nn.functional.multi_head_attention_forward` is one call with two layers in it, projections
into heads and out of them. Taken apart, it can be cut between them.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from workbench.profiles.private import canonical_mask, none_or_dtype, project_packed

MULTI_HEAD = functional.multi_head_attention_forward

_RARE = ("bias_k", "bias_v", "static_k", "static_v")
_NAMES = tuple(inspect.signature(MULTI_HEAD).parameters)


def multi_head(
    call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Tensor, Tensor | None] | None:
    """Give what `MULTI_HEAD` gives, bit for bit, by calls of ``call(function, *arguments)``.

    None where it attends to more than its arguments, not in a batch, or as PyTorch refuses.
    """
    named = dict(zip(_NAMES, args, strict=False)) | kwargs
    rare = named.get("add_zero_attn") or any(named.get(name) is not None for name in _RARE)
    refused = named.get("is_causal") and named.get("attn_mask") is None
    if rare or refused or named["query"].dim() != 3:
        return None
    given = [named[name] for name in ("query", "key", "value")]
    bias = named.get("in_proj_bias")
    if named.get("use_separate_proj_weight"):
        weights = [named[f"{name}_proj_weight"] for name in "qkv"]
        biases = (None,) * 3 if bias is None else call(Tensor.chunk, bias, 3)
        pairs = zip(given, weights, biases, strict=True)
        heads = tuple(call(functional.linear, *each) for each in pairs)
    else:
        heads = _projected(call, given, named["in_proj_weight"], bias)
    mixed, *attention = call(
        attend,
        *heads,
        named["num_heads"],
        dropout=named["dropout_p"] if named.get("training", True) else 0.0,
        attn_mask=named.get("attn_mask"),
        key_padding_mask=named.get("key_padding_mask"),
        is_causal=named.get("is_causal", False),
        need_weights=named.get("need_weights", True),
        average=named.get("average_attn_weights", True),
    )
    positions, samples, width = given[0].shape
    mixed = call(Tensor.contiguous, call(Tensor.permute, mixed, (2, 0, 1, 3)))
    mixed = call(Tensor.view, mixed, (positions * samples, width))
    out = call(functional.linear, mixed, named["out_proj_weight"], named["out_proj_bias"])
    out = call(Tensor.view, out, (positions, samples, -1))
    return out, attention[0] if attention else None


def _projected(
    call: Callable[..., Any], given: list[Tensor], weight: Tensor, bias: Tensor | None
) -> tuple[Tensor, ...]:
    """Project by packed weights; by a call for each input, which may be of different layers."""
    query, key, value = given
    if query is key and key is value:
        return tuple(call(project_packed, *given, weight, bias))
    width = query.shape[-1]
    widths = [width, 2 * width] if key is value else [width] * 3
    weights = call(Tensor.split, weight, widths)
    biases = [None] * len(widths) if bias is None else call(Tensor.split, bias, widths)
    projected = [
        call(functional.linear, *each) for each in zip(given, weights, biases, strict=False)
    ]
    return (projected[0], *(call(_halves, projected[1]) if key is value else projected[1:]))


def _halves(both: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values out of what was projected at once, each as PyTorch lays it out."""
    halves = both.unflatten(-1, (2, both.shape[-1] // 2))  # type: ignore[no-untyped-call]
    apart = halves.unsqueeze(0).transpose(0, -2)
    apart = apart.squeeze(-2).contiguous()
    return apart[0], apart[1]


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    heads: int,
    *,
    dropout: float,
    attn_mask: Tensor | None,
    key_padding_mask: Tensor | None,
    is_causal: bool,
    need_weights: bool,
    average: bool,
) -> tuple[Tensor, ...]:
    """Mix values, positions x samples x width, by the weights of attention.

    Samples x heads x positions x width of a head; then, if they are needed, the weights, samples x
    heads x positions x positions, or without heads their average.
    """
    (positions, samples, _), source = query.shape, len(key)
    padding = canonical_mask(
        mask=key_padding_mask,
        mask_name="key_padding_mask",
        other_type=none_or_dtype(attn_mask),
        other_name="attn_mask",
        target_type=query.dtype,
    )
    if is_causal and padding is None and not need_weights:
        attn_mask = None
    else:
        attn_mask = canonical_mask(
            mask=attn_mask,
            mask_name="attn_mask",
            other_type=None,
            other_name="",
            target_type=query.dtype,
            check_other=False,
        )
        is_causal = is_causal and padding is None
    if attn_mask is not None and attn_mask.dim() == 2:
        attn_mask = attn_mask.unsqueeze(0)
    if padding is not None:
        padding = padding.view(samples, 1, 1, source).expand(-1, heads, -1, -1)
        padding = padding.reshape(samples * heads, 1, source)
        attn_mask = padding if attn_mask is None else attn_mask + padding
    q, k, v = (
        tensor.view(len(tensor), samples * heads, -1).transpose(0, 1)
        for tensor in (query, key, value)
    )
    if not need_weights:
        if attn_mask is not None:
            alike = len(attn_mask) == 1
            form = (1, 1, *attn_mask.shape[1:]) if alike else (samples, heads, -1, source)
            attn_mask = attn_mask.view(form)
        q, k, v = (tensor.view(samples, heads, tensor.shape[1], -1) for tensor in (q, k, v))
        return (functional.scaled_dot_product_attention(q, k, v, attn_mask, dropout, is_causal),)
    scaled, across = q * math.sqrt(1.0 / float(q.shape[2])), k.transpose(-2, -1)
    if attn_mask is None:
        attention = torch.bmm(scaled, across)
    else:
        attention = torch.baddbmm(attn_mask, scaled, across)
    attention = functional.softmax(attention, dim=-1)
    if dropout > 0:
        attention = functional.dropout(attention, p=dropout)
    mixed = torch.bmm(attention, v).view(samples, heads, positions, -1)
    attention = attention.view(samples, heads, positions, source)
    return mixed, attention.mean(dim=1) if average else attention
