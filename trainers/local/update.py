"""One iteration's optimizer steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from agent_envs.tasks import derive_seed
from agent_envs.trainers.local.generation import pad_right, reply_logprobs
from agent_envs.trainers.local.loss import Loss, policy_loss
from agent_envs.trainers.local.policy import Policy
from agent_envs.trainers.local.report import Metrics
from agent_envs.trainers.local.rollout import Sample
from agent_envs.trainers.recipe import LocalSection


def make_optimizer(policy: Policy, local: LocalSection) -> torch.optim.Optimizer:
    """Return the AdamW of a recipe."""
    return torch.optim.AdamW(
        policy.model.parameters(), lr=local.lr, betas=(0.9, local.beta2), weight_decay=local.weight_decay
    )


def update(
    policy: Policy,
    reference: Policy | None,
    optimizer: torch.optim.Optimizer,
    samples: Sequence[Sample],
    advantages: npt.NDArray[np.float64],
    local: LocalSection,
    *,
    seed: int,
) -> Metrics:
    """Make the optimizer steps of one iteration.

    Every epoch shuffles the turns and cuts them into mini-batches of nearly equal size, about ``mini_batch_rows``
    each; each is one optimizer step, its gradient summed over micro-batches of turns of similar length.

    Args:
        policy: The policy being trained.
        reference: The frozen policy of the KL term, None without one.
        optimizer: Of :func:`make_optimizer`.
        samples: Turns to train on.
        advantages: One per turn, [n].
        local: The recipe's hyper-parameters.
        seed: Decides the order of the turns.
    """
    losses: list[Loss] = []
    norms: list[float] = []
    num_tokens = 0
    first: list[Loss] = []
    first_tokens = 0
    num_steps = max(1, round(len(samples) / local.mini_batch_rows))
    for epoch in range(local.epochs):
        order = np.random.Generator(np.random.PCG64(derive_seed(seed, epoch))).permutation(len(samples))
        for rows in np.array_split(order, num_steps):
            rows = rows[np.argsort([len(samples[row].prompt_ids) for row in rows], kind="stable")]  # less padding
            tokens = sum(len(samples[row].reply_ids) for row in rows)
            optimizer.zero_grad(set_to_none=True)
            parts = []
            for start in range(0, len(rows), local.micro_batch_rows):
                micro = rows[start : start + local.micro_batch_rows]
                loss = _loss(policy, reference, [samples[row] for row in micro], advantages[micro], local, tokens)
                torch.autograd.backward(loss.value)
                parts.append(loss)
            norms.append(float(torch.nn.utils.clip_grad_norm_(policy.model.parameters(), local.grad_clip)))
            optimizer.step()
            if not first:
                first, first_tokens = parts, tokens
            losses += parts
            num_tokens += tokens
    optimizer.zero_grad(set_to_none=True)
    return {
        "update/loss": sum(float(loss.value.detach()) for loss in losses) / len(norms),
        "update/clip_share": sum(loss.clipped_tokens for loss in losses) / num_tokens,
        "update/kl_old": sum(loss.kl_old_sum for loss in losses) / num_tokens,
        "update/kl_reference": sum(loss.kl_reference_sum for loss in losses) / num_tokens,
        # Before the first step both policies are the same: what differs is rollout arithmetic against training's.
        "update/logprob_gap": sum(loss.gap_sum for loss in first) / first_tokens,
        "update/grad_norm": float(np.mean(norms)),
        "update/steps": len(norms),
    }


def _loss(
    policy: Policy,
    reference: Policy | None,
    samples: Sequence[Sample],
    advantages: npt.NDArray[np.float64],
    local: LocalSection,
    num_tokens: int,
) -> Loss:
    prompts, replies = [sample.prompt_ids for sample in samples], [sample.reply_ids for sample in samples]
    device = policy.device
    logprobs = reply_logprobs(policy.model, prompts, replies, temperature=local.temperature, autocast=policy.autocast)
    reference_logprobs = None
    if reference is not None:
        with torch.no_grad():
            reference_logprobs = reply_logprobs(
                reference.model, prompts, replies, temperature=local.temperature, autocast=policy.autocast
            )
    return policy_loss(
        logprobs,
        pad_right([sample.logprobs for sample in samples], torch.float32, device),
        torch.tensor(advantages, dtype=torch.float32, device=device),
        pad_right([[1.0] * len(reply) for reply in replies], torch.float32, device),
        num_tokens=num_tokens,
        clip_low=local.clip_low,
        clip_high=local.clip_high,
        reference_logprobs=reference_logprobs,
        kl_coef=local.kl_coef,
    )
