"""Batched sampling with a key-value cache, and the log-probabilities of given replies.

Prompts are padded on the left, replies on the right, so that the first reply token of every row has one column.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

StopFn = Callable[[Sequence[int]], bool]
"""Whether a reply, given as the token ids sampled so far, is complete."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """One sampled reply: what is parsed, stored and trained on; its ids are never made from text again."""

    ids: list[int]  # [num_reply_tokens]
    """Sampled token ids, the end token or the stop string's tokens included."""
    logprobs: list[float]  # [num_reply_tokens]
    """Log-probability of each under the distribution it was drawn from (temperature included)."""
    finished: bool
    """False if the length limit cut the reply."""


def pad_left(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return token ids and attention mask, both int64 [B, P]; padding has id 0 and mask 0."""
    width = max(map(len, rows))
    ids = torch.zeros((len(rows), width), dtype=torch.int64)
    mask = torch.zeros_like(ids)
    for row, tokens in enumerate(rows):
        ids[row, width - len(tokens) :] = torch.tensor(tokens)
        mask[row, width - len(tokens) :] = 1
    return ids.to(device), mask.to(device)


def pad_right(rows: Sequence[Sequence[float]], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return the rows as one tensor [B, R], padded with 0."""
    width = max(map(len, rows))
    return torch.tensor([[*row, *[0] * (width - len(row))] for row in rows], dtype=dtype, device=device)


def positions(mask: torch.Tensor) -> torch.Tensor:
    """Return position ids [B, T] that count real tokens only, so that left padding changes nothing."""
    return (mask.cumsum(-1) - 1).clamp(min=0)


@torch.inference_mode()
def generate(
    model: Any,
    prompts: Sequence[Sequence[int]],
    *,
    uniforms: npt.NDArray[np.float64],
    temperature: float,
    eos_ids: Sequence[int],
    stop: StopFn,
    autocast: torch.dtype | None = None,
) -> list[Reply]:
    """Sample one reply per prompt.

    Identical prompts are read (prefilled) once and rows that have ended leave the batch. The randomness comes in
    as numbers, so a row's reply does not depend on the rows beside it nor on any generator.

    Args:
        model: A ``transformers`` causal LM.
        prompts: Token ids per row, each at least one token.
        uniforms: Numbers in [0, 1), one per row and reply token, shape [B, R]; R is the longest reply.
        temperature: Sampling temperature; 0 takes the likeliest token.
        eos_ids: Tokens that end a reply.
        stop: Further end of a reply, asked after every token.
        autocast: Arithmetic of the forward pass, None for that of the weights.
    """
    device = next(model.parameters()).device
    unique: dict[tuple[int, ...], int] = {}
    source = [unique.setdefault(tuple(prompt), len(unique)) for prompt in prompts]
    ids, mask = pad_left(list(unique), device)
    cache = _new_cache()
    with torch.autocast(device.type, dtype=autocast, enabled=autocast is not None):
        logits = _forward(model, ids, mask, positions(mask), cache)
        if len(unique) < len(prompts):
            rows = torch.tensor(source, device=device)
            cache.batch_select_indices(rows)
            logits, mask = logits[rows], mask[rows]
        return _decode(
            model, logits, mask, cache, torch.from_numpy(uniforms).to(device), temperature, set(eos_ids), stop
        )


def _decode(
    model: Any,
    logits: torch.Tensor,
    mask: torch.Tensor,
    cache: Any,
    uniforms: torch.Tensor,
    temperature: float,
    eos_ids: set[int],
    stop: StopFn,
) -> list[Reply]:
    num_rows, num_steps = uniforms.shape
    ids: list[list[int]] = [[] for _ in range(num_rows)]
    logprobs: list[list[float]] = [[] for _ in range(num_rows)]
    finished = [False] * num_rows
    alive = list(range(num_rows))
    for step in range(num_steps):
        tokens, chosen = _pick(logits, uniforms[alive, step], temperature)
        for row, token, logprob in zip(alive, tokens.tolist(), chosen.tolist(), strict=True):
            ids[row].append(token)
            logprobs[row].append(logprob)
            finished[row] = token in eos_ids or stop(ids[row])
        going = [place for place, row in enumerate(alive) if not finished[row]]
        if not going or step == num_steps - 1:
            break
        if len(going) < len(alive):
            keep = torch.tensor(going, device=mask.device)
            cache.batch_select_indices(keep)
            tokens, mask = tokens[keep], mask[keep]
            alive = [alive[place] for place in going]
        mask = torch.cat([mask, mask.new_ones(len(alive), 1)], dim=1)
        logits = _forward(model, tokens[:, None], mask, positions(mask)[:, -1:], cache)
    return [
        Reply(ids=row_ids, logprobs=row_logprobs, finished=done)
        for row_ids, row_logprobs, done in zip(ids, logprobs, finished, strict=True)
    ]


def _pick(logits: torch.Tensor, uniforms: torch.Tensor, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the chosen tokens and their log-probabilities, both [B]: inverse transform sampling."""
    scale = temperature if temperature > 0 else 1.0
    logprobs = torch.log_softmax(logits.float() / scale, dim=-1)
    if temperature > 0:
        # float64: in float32 the sum over a vocabulary of 150,000 would lose rare tokens.
        cumulative = logprobs.exp().cumsum(-1, dtype=torch.float64)
        point = uniforms[:, None] * cumulative[:, -1:]
        tokens = torch.searchsorted(cumulative, point, right=True).clamp(max=logits.shape[-1] - 1)
    else:
        tokens = logprobs.argmax(-1, keepdim=True)
    return tokens[:, 0], logprobs.gather(1, tokens)[:, 0]


def _new_cache() -> Any:
    from transformers import DynamicCache

    return DynamicCache()


def _forward(model: Any, ids: torch.Tensor, mask: torch.Tensor, position_ids: torch.Tensor, cache: Any) -> torch.Tensor:
    """Return the logits after the last column, [B, V]; the cache grows."""
    # transformers 5.24 renamed the argument and warns about the old name.
    name = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
    arguments = {name: cache, "use_cache": True, "logits_to_keep": 1}
    output = model(input_ids=ids, attention_mask=mask, position_ids=position_ids, **arguments)
    logits: torch.Tensor = output.logits[:, -1]
    return logits


def reply_logprobs(
    model: Any,
    prompts: Sequence[Sequence[int]],
    replies: Sequence[Sequence[int]],
    *,
    temperature: float,
    autocast: torch.dtype | None = None,
) -> torch.Tensor:
    """Return the log-probability of every reply token, [B, R] with R the longest reply; padding holds any value.

    Rows with equal prompt and reply are computed once. Gradients flow where the model has them enabled.
    """
    device = next(model.parameters()).device
    unique: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
    pairs = zip(prompts, replies, strict=True)
    source = [unique.setdefault((tuple(prompt), tuple(reply)), len(unique)) for prompt, reply in pairs]
    ids, mask = pad_left([prompt for prompt, _ in unique], device)
    targets = pad_right([reply for _, reply in unique], torch.int64, device)
    real = pad_right([[1] * len(reply) for _, reply in unique], torch.int64, device)
    ids, mask = torch.cat([ids, targets], dim=1), torch.cat([mask, real], dim=1)
    with torch.autocast(device.type, dtype=autocast, enabled=autocast is not None):
        output = model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions(mask),
            use_cache=False,
            logits_to_keep=targets.shape[1] + 1,
        )
    logits = output.logits[:, :-1].float() / (temperature if temperature > 0 else 1.0)
    chosen = torch.log_softmax(logits, dim=-1).gather(2, targets[:, :, None])[:, :, 0]
    return chosen[torch.tensor(source, device=device)]
