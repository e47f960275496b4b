"""The clipped policy gradient with a token-mean loss, as pure functions of tensors."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, kw_only=True, slots=True)
class Loss:
    """Loss of one micro-batch; the sums are over its reply tokens."""

    value: torch.Tensor
    """Differentiable: the micro-batch's share of the mini-batch's token mean."""
    clipped_tokens: float
    """Tokens whose ratio lies outside the clip range."""
    kl_old_sum: float
    """Sum of logp_old - logp: how far the update has moved from the rollout policy."""
    kl_reference_sum: float
    """Sum of the KL estimate to the reference, 0 without one."""
    gap_sum: float
    """Sum of |logp - logp_old|; before the first update it is the mismatch of rollout and trainer."""


def policy_loss(
    logprobs: torch.Tensor,
    old_logprobs: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
    *,
    num_tokens: float,
    clip_low: float,
    clip_high: float,
    reference_logprobs: torch.Tensor | None = None,
    kl_coef: float = 0.0,
) -> Loss:
    """Return -min(ratio * A, clip(ratio, 1 - clip_low, 1 + clip_high) * A) summed over tokens, over ``num_tokens``.

    Args:
        logprobs: Under the policy being trained, [B, R].
        old_logprobs: Under the policy that sampled, [B, R].
        advantages: One per turn, [B]; all tokens of a reply share it.
        mask: 1 for reply tokens, 0 for padding, [B, R].
        num_tokens: Reply tokens of the whole mini-batch, so that micro-batches add up to its token mean.
        clip_low: Distance of the lower clip from 1.
        clip_high: Distance of the upper clip from 1; larger than ``clip_low`` is DAPO's clip-higher.
        reference_logprobs: Under the frozen reference, [B, R].
        kl_coef: Weight of the KL to it.
    """
    real = mask.bool()
    # Padding holds arbitrary values: exp() of them could be infinite, and 0 * inf is NaN.
    difference = torch.where(real, logprobs - old_logprobs, 0.0)
    ratio = difference.exp()
    weight = advantages[:, None]
    token_loss = -torch.min(ratio * weight, ratio.clamp(1 - clip_low, 1 + clip_high) * weight)
    kl_sum = 0.0
    if reference_logprobs is not None:
        kl = low_var_kl(torch.where(real, logprobs, 0.0), torch.where(real, reference_logprobs, 0.0))
        token_loss = token_loss + kl_coef * kl
        kl_sum = float(kl.detach().sum())
    outside = ((ratio < 1 - clip_low) | (ratio > 1 + clip_high)) & real
    return Loss(
        value=(token_loss * mask).sum() / num_tokens,
        clipped_tokens=float(outside.sum()),
        kl_old_sum=float(-difference.detach().sum()),
        kl_reference_sum=kl_sum,
        gap_sum=float(difference.detach().abs().sum()),
    )


def low_var_kl(logprobs: torch.Tensor, reference_logprobs: torch.Tensor) -> torch.Tensor:
    """Return exp(d) - d - 1 with d = logp_ref - logp per token: never negative, unbiased, of low variance."""
    difference = reference_logprobs - logprobs
    return difference.exp() - difference - 1
