from __future__ import annotations

import json

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from agent_envs.trainers.local.demo import run_demo  # noqa: E402


@pytest.mark.slow
def test_the_demo_trains_three_algorithms_from_one_start_and_a_household(tmp_path, capsys):
    short = ["local.iterations=1", "local.clone_target=0.02", "local.clone_max_steps=400"]
    short += ["agent_envs.panel.size=20", "agent_envs.num_groups=2"]
    results = run_demo(tmp_path / "demo", short)
    assert sorted(results) == ["g2po", "gigpo", "grpo", "household"]
    for picture in ("curves.png", "household.png"):
        assert (tmp_path / "demo" / picture).read_bytes()[:4] == b"\x89PNG"
    assert len(list((tmp_path / "demo" / "warm_starts").iterdir())) == 2
    summary = json.loads((tmp_path / "demo" / "demo.json").read_text())
    lines = [
        (tmp_path / "demo" / name / "metrics.jsonl").read_text().splitlines() for name in ("grpo", "gigpo", "g2po")
    ]
    starts = [json.loads(line[0]) for line in lines]
    assert {line["eval/success"] for line in starts} == {summary["start"]}
    out = capsys.readouterr().out
    assert all(name in out for name in ("warm start", "GRPO", "GiGPO", "G2PO", "95% interval"))
    again = run_demo(tmp_path / "demo", short)  # a finished demo is scored again, not trained again
    assert {name: result.tasks for name, result in again.items()} == {n: r.tasks for n, r in results.items()}
