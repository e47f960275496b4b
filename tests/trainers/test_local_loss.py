from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from agent_envs.trainers.local.loss import low_var_kl, policy_loss  # noqa: E402

CLIP = {"clip_low": 0.2, "clip_high": 0.28}


def test_loss_by_hand():
    # Ratios 1.5 (clipped for A > 0), 0.5 (clipped for A < 0), 1.1 and a padded token that must not matter.
    old = torch.tensor([[0.0, 0.0], [0.0, 1e9]])
    new = torch.tensor([[math.log(1.5), math.log(1.1)], [math.log(0.5), -1e9]])
    mask = torch.tensor([[1.0, 1.0], [1.0, 0.0]])
    loss = policy_loss(new, old, torch.tensor([2.0, -3.0]), mask, num_tokens=3.0, **CLIP)
    # -min(3.0, 2.56) - min(2.2, 2.2) - min(-1.5, -2.4)
    assert float(loss.value) == pytest.approx((-2.56 - 2.2 + 2.4) / 3, abs=1e-6)
    assert loss.clipped_tokens == 2
    assert loss.kl_old_sum == pytest.approx(-(math.log(1.5) + math.log(1.1) + math.log(0.5)), abs=1e-6)
    assert loss.gap_sum == pytest.approx(math.log(1.5) + math.log(1.1) - math.log(0.5), abs=1e-6)


@pytest.mark.parametrize(
    ("ratio", "advantage", "has_gradient"),
    [(1.27, 1.0, True), (1.29, 1.0, False), (0.79, 1.0, True), (0.79, -1.0, False), (1.29, -1.0, True)],
)
def test_gradient_stops_outside_the_clip_range_only_where_it_would_go_further(ratio, advantage, has_gradient):
    new = torch.tensor([[math.log(ratio)]], requires_grad=True)
    loss = policy_loss(new, torch.zeros(1, 1), torch.tensor([advantage]), torch.ones(1, 1), num_tokens=1.0, **CLIP)
    loss.value.backward()
    expected = -ratio * advantage if has_gradient else 0.0
    assert float(new.grad) == pytest.approx(expected, abs=1e-6)


def test_kl_to_the_reference_by_hand():
    new, reference = torch.tensor([[-1.0, 0.0]]), torch.tensor([[-1.5, 1e9]])
    kl = math.exp(-0.5) + 0.5 - 1
    assert float(low_var_kl(new, reference)[0, 0]) == pytest.approx(kl, abs=1e-6)
    mask = torch.tensor([[1.0, 0.0]])
    loss = policy_loss(
        new, new, torch.zeros(1), mask, num_tokens=1.0, reference_logprobs=reference, kl_coef=0.01, **CLIP
    )
    assert float(loss.value) == pytest.approx(0.01 * kl, abs=1e-7)
    assert loss.kl_reference_sum == pytest.approx(kl, abs=1e-6)


def test_micro_batches_add_up_to_the_token_mean_of_the_mini_batch():
    generator = torch.Generator().manual_seed(0)
    new, old = torch.randn(4, 3, generator=generator), torch.randn(4, 3, generator=generator)
    mask = torch.tensor([[1, 1, 1], [1, 0, 0], [1, 1, 0], [1, 1, 1.0]])
    advantages = torch.randn(4, generator=generator)
    whole = policy_loss(new, old, advantages, mask, num_tokens=9.0, **CLIP).value
    parts = [
        policy_loss(new[rows], old[rows], advantages[rows], mask[rows], num_tokens=9.0, **CLIP).value
        for rows in (slice(0, 1), slice(1, 4))
    ]
    assert float(sum(parts)) == pytest.approx(float(whole), abs=1e-6)
