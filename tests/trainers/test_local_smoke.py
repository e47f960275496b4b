from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from agent_envs.trainers.local.train import train  # noqa: E402
from agent_envs.trainers.recipe import load_recipe  # noqa: E402


def test_a_short_training_run_learns(tmp_path):
    overrides = ["local.iterations=9", "local.eval_every=0", "agent_envs.panel.size=50"]
    result = train(load_recipe("ezpoints_tiny_gigpo", overrides=overrides), tmp_path / "run")
    assert result.start is not None
    start, final = result.start.success_rate, result.final.success_rate
    assert 0.1 < start < 0.45
    assert final > start + 0.1
