"""Whole runs of verl's trainer on the CPU backend, in subprocesses; one is in the ordinary suite, the others are slow.

Each takes one to four minutes, most of it the start of Ray's processes.
"""

import importlib.util
import os
import subprocess
import sys

import pytest

pytest.importorskip("verl")

from agent_envs.trainers.verl.curve import read_console  # noqa: E402

pytestmark = pytest.mark.e2e

# Two groups of four with a model that has copied a few oracle turns: rewards differ, and a step takes seconds.
SMALL = [
    "agent_envs.num_groups=2",
    "agent_envs.group_size=4",
    "agent_envs.panel.size=4",
    "actor_rollout_ref.actor.ppo_mini_batch_size=4",
    "trainer.total_training_steps=2",
    "trainer.test_freq=-1",
    "verl.tiny_model.clone_episodes=64",
    "verl.tiny_model.clone_batch_rows=64",
    "verl.tiny_model.clone_target=0.1",
]


def train(folder, recipe, *overrides, extra_packages=None, timeout_s=1500):
    """Run the command in ``folder`` and return its output and the metrics of each step."""
    names = {item.lstrip("+").partition("=")[0] for item in overrides}
    small = [item for item in SMALL if item.lstrip("+").partition("=")[0] not in names]
    if any(item.startswith("verl.tiny_model=null") for item in overrides):
        small = [item for item in small if "tiny_model" not in item]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1"}
    if extra_packages:
        paths = [str(extra_packages), os.environ.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    run = subprocess.run(
        [sys.executable, "-m", "agent_envs.trainers.verl", recipe, *small, *overrides],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    output = run.stdout + run.stderr
    (folder / "output.txt").write_text(output)
    assert run.returncode == 0, output[-4000:]
    return output, read_console(output)


def check(metrics, *, steps=(1, 2), episodes=8, groups=2):
    """What holds for every run: all sessions, equal log-probabilities on both sides, a signal where rewards differ."""
    trained = [line for line in metrics if "rollout/episodes" in line]
    assert [line["step"] for line in trained] == list(steps)
    for line in trained:
        assert line["rollout/episodes"] == episodes and line["turns/groups"] == groups
        assert line["rollout/lost"] == line["rollout/infra_errors"] == 0
        assert line["training/rollout_probs_diff_max"] < 1e-3
        assert 1 <= line["turns/state_groups"] <= line["turns/rows"]
        # Every member of a group acts in the first state, so at least that one is shared.
        assert line["turns/largest_group"] >= episodes // groups
        if line["turns/groups_without_spread"] < groups:
            assert line["turns/nonzero_advantage_share"] > 0
            assert line["critic/advantages/max"] > 0 > line["critic/advantages/min"]
    return trained


def test_gigpo_step_by_step_on_ezpoints(tmp_path):
    _, metrics = train(tmp_path, "cpu_ezpoints_gigpo")
    trained = check(metrics)
    assert any(line["turns/nonzero_advantage_share"] > 0 for line in trained)
    # Rows per update are 4 * 4 = 16, or a multiple of it: the rest is padding.
    for line in trained:
        assert (line["turns/rows"] + line["turns/padding_rows"]) % 16 == 0


@pytest.mark.slow
def test_g2po_step_by_step_on_sokoban(tmp_path):
    _, metrics = train(tmp_path, "cpu_sokoban_g2po", "verl.tiny_model.clone_target=0.02")
    trained = check(metrics)
    assert any(line["turns/nonzero_advantage_share"] > 0 for line in trained)


@pytest.mark.slow
def test_concatenated_conversations(tmp_path):
    _, metrics = train(
        tmp_path,
        "cpu_ezpoints_gigpo",
        "agent_envs.context=concatenated",
        "data.max_response_length=256",
        "verl.max_turn_tokens=8",
    )
    trained = check(metrics)
    # One row per episode, padded to a multiple of a mini-batch, but one turn per environment step in the table.
    for line in trained:
        assert line["turns/padding_rows"] == 8 and line["turns/rows"] > 8


@pytest.fixture(scope="module")
def torchvision(tmp_path_factory):
    """A folder with torchvision, which Qwen's processor needs; beside a CPU build of torch it breaks transformers."""
    if importlib.util.find_spec("torchvision"):
        return None
    folder = tmp_path_factory.mktemp("torchvision")
    wheel = ["--quiet", "--no-deps", "--target", str(folder), "torchvision==0.28.0"]  # belongs to torch 2.13
    if subprocess.run([sys.executable, "-m", "pip", "install", *wheel]).returncode:
        pytest.skip("torchvision 0.28.0 cannot be installed here")
    return folder


@pytest.mark.slow
def test_images(tmp_path, torchvision):
    _, metrics = train(
        tmp_path,
        "cpu_sokoban_gigpo",
        "verl.tiny_model=null",
        "verl.random_model=qwen2.5-vl",
        "~agent_envs.env_kwargs.grid_style",
        "agent_envs.env_kwargs.obs_mode=image",
        "agent_envs.env_kwargs.max_turns=3",
        "agent_envs.prompt=papers",
        "data.max_prompt_length=2048",
        extra_packages=torchvision,
    )
    check(metrics)


@pytest.mark.slow
def test_dynamic_sampling(tmp_path):
    _, metrics = train(
        tmp_path, "cpu_ezpoints_grpo", "algorithm.filter_groups.enable=true", "algorithm.filter_groups.metric=outcome"
    )
    for line in check(metrics):
        assert line["turns/groups_without_spread"] == 0  # such groups were drawn again


@pytest.mark.slow
def test_lora(tmp_path):
    _, metrics = train(
        tmp_path,
        "cpu_ezpoints_gigpo",
        "actor_rollout_ref.model.lora_rank=4",
        "actor_rollout_ref.model.lora_alpha=8",
        "actor_rollout_ref.model.lora.merge=true",
    )
    check(metrics)


@pytest.mark.slow
def test_ppo_with_a_critic(tmp_path):
    _, metrics = train(
        tmp_path,
        "cpu_ezpoints_gigpo",
        "agent_envs.estimator=gae",
        "agent_envs.norm=null",
        "verl.estimator_kwargs={lam: 0.95, whiten: true}",
        "critic.enable=true",
    )
    for line in check(metrics):
        assert line["turns/nonzero_advantage_share"] > 0.5
        assert "critic/vf_loss" in line


@pytest.mark.slow
def test_two_data_parallel_ranks(tmp_path):
    _, metrics = train(tmp_path, "cpu_ezpoints_gigpo", "trainer.n_gpus_per_node=2")
    check(metrics)  # the bound on log-probabilities fails if one of the two replicas gets no weights


@pytest.mark.slow
def test_kl_to_a_reference_then_checkpoint_and_resume(tmp_path):
    options = [
        "actor_rollout_ref.actor.use_kl_loss=true",
        "actor_rollout_ref.actor.kl_loss_coef=0.01",
        "trainer.save_freq=1",
        "trainer.resume_mode=auto",
        "trainer.test_freq=2",
    ]
    _, metrics = train(tmp_path, "cpu_ezpoints_gigpo", *options)
    trained = check(metrics)
    assert all("actor/kl_loss" in line for line in trained)
    # The panel's 4 tasks were validated once, under the environment's name.
    assert any("val-core/EZPoints-v0/acc/mean@1" in line for line in metrics)
    output, metrics = train(tmp_path, "cpu_ezpoints_gigpo", *options, "trainer.total_training_steps=3")
    check(metrics, steps=(3,))
    assert "global_step_2" in output


@pytest.mark.slow
def test_asynchronous_rollout_beside_training(tmp_path):
    _, metrics = train(tmp_path, "cpu_ezpoints_gigpo", "trainer.v1.trainer_mode=colocate_async")
    trained = [line for line in metrics if "rollout/episodes" in line]
    assert [line["step"] for line in trained] == [1, 2]
    assert all(line["rollout/episodes"] == 8 for line in trained)
