import copy
import functools

import pytest

pytest.importorskip("verl")

import yaml  # noqa: E402

from agent_envs.registration import registered_ids  # noqa: E402
from agent_envs.trainers.advantages import get_estimator  # noqa: E402
from agent_envs.trainers.verl.config import (  # noqa: E402
    VerlSection,
    check_config,
    check_environment,
    compose,
    recipe_dir,
    recipe_names,
    sections,
)
from agent_envs.trainers.verl.main import main  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),  # verl warns of engines that are not installed
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@functools.cache
def composed_recipe(name):
    """A composed recipe; composing takes about a second, so tests that only read share it."""
    return compose(name)


METHODS = ["grpo", "rloo", "ppo", "dapo", "gigpo", "gigpo_no_std", "gigpo_dynamic", "g2po"]
CELLS = [
    *(f"{task}_{m}_qwen2.5-{size}" for task in ("alfworld", "webshop") for m in METHODS for size in ("1.5b", "7b")),
    *(f"search_qa_{method}_qwen2.5-{size}" for method in ("grpo", "gigpo") for size in ("3b", "7b")),
    *(f"app_world_{method}_qwen2.5-14b" for method in ("grpo", "gigpo", "g2po")),
    *(f"{task}_{method}_qwen2.5-vl-3b" for task in ("sokoban", "ezpoints") for method in ("grpo", "gigpo")),
    *(f"{task}_gigpo_{p}" for task in ("alfworld", "webshop") for p in ("qwen2.5-7b-lora", "qwen3-4b", "llama3.2-3b")),
]
# Ids that recipes may name although this installation may not have them yet.
KNOWN_IDS = {f"agent_envs/{name}-v0" for name in "ALFWorld WebShop SearchQA AppWorld Sokoban EZPoints".split()}


def test_every_cell_has_a_recipe():
    assert set(CELLS) <= set(recipe_names())
    assert not any(name.startswith("_") for name in recipe_names())


@pytest.mark.parametrize("name", recipe_names())
def test_recipe_composes_and_validates(name):
    config = composed_recipe(name)
    check_config(config)
    section, options = sections(config)
    assert section.env_id in KNOWN_IDS
    if section.env_id in registered_ids():
        check_environment(section, options)
    get_estimator(section.estimator)
    assert config.actor_rollout_ref.rollout.n == section.group_size
    assert config.data.train_batch_size == section.num_groups
    assert config.trainer.experiment_name == name
    assert not config.algorithm.use_kl_in_reward
    rows = config.actor_rollout_ref.actor.ppo_mini_batch_size * section.group_size
    assert rows % (config.trainer.n_gpus_per_node * config.trainer.nnodes) == 0


def mini_batch_rows(config):
    return config.actor_rollout_ref.actor.ppo_mini_batch_size * config.actor_rollout_ref.rollout.n


@pytest.mark.parametrize(
    ("name", "prompt", "turns", "groups", "size", "rows", "steps", "kl", "penalty", "history", "gpus"),
    [
        ("alfworld_gigpo_qwen2.5-1.5b", 2048, 50, 16, 8, 256, 150, 0.01, 0.1, 2, 2),
        ("alfworld_gigpo_qwen2.5-7b", 2048, 50, 16, 8, 256, 150, 0.01, 0.1, 2, 4),
        ("webshop_gigpo_qwen2.5-1.5b", 4096, 15, 16, 8, 64, 150, 0.01, 0.1, 2, 2),
        ("search_qa_gigpo_qwen2.5-3b", 4096, 4, 256, 5, 520, 200, 0.001, 0.01, None, 4),
        ("search_qa_gigpo_qwen2.5-7b", 4096, 4, 256, 5, 520, 200, 0.001, 0.01, None, 8),
    ],
)
def test_numbers_of_the_papers(name, prompt, turns, groups, size, rows, steps, kl, penalty, history, gpus):
    config = composed_recipe(name)
    section, options = sections(config)
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    assert (config.data.max_prompt_length, config.data.max_response_length) == (prompt, 512)
    assert (section.num_groups, section.group_size, section.env_kwargs["max_turns"]) == (groups, size, turns)
    assert (section.penalty, section.penalty_mode, section.gamma, section.w) == (penalty, "reward", 0.95, 1.0)
    assert section.memory_kwargs["history_length"] == history
    assert mini_batch_rows(config) == rows and config.trainer.total_training_steps == steps
    assert (actor.optim.lr, actor.use_kl_loss, actor.kl_loss_coef, actor.kl_loss_type) == (1e-6, True, kl, "low_var_kl")
    assert rollout.temperature == 1.0
    assert rollout.val_kwargs.temperature == (0 if name.startswith("search") else 0.4)
    assert section.similarity == (0.9 if name.startswith("search") else None)
    assert config.trainer.n_gpus_per_node == gpus


def test_keys_of_our_sections_need_no_plus_and_others_do():
    assert compose(CPU, ["agent_envs.context=concatenated"]).agent_envs.context == "concatenated"
    with pytest.raises(ValueError, match="does not compose"):
        compose(CPU, ["trainer.no_such_key=1"])


def test_methods_differ_where_they_should():
    configs = {method: composed_recipe(f"webshop_{method}_qwen2.5-7b") for method in METHODS}
    kl = {method: config.actor_rollout_ref.actor.use_kl_loss for method, config in configs.items()}
    assert not kl.pop("dapo") and all(kl.values())
    dynamic = {method for method, config in configs.items() if config.algorithm.filter_groups.enable}
    high = {m for m, config in configs.items() if config.actor_rollout_ref.actor.clip_ratio_high == 0.28}
    assert dynamic == high == {"dapo", "gigpo_dynamic"}
    assert configs["ppo"].critic.enable and configs["ppo"].critic.optim.lr == 1e-5
    assert configs["g2po"].agent_envs.w == 0.8
    assert [configs[m].agent_envs.norm for m in ("gigpo", "gigpo_no_std")] == ["mean_std_norm", "mean_norm"]


def test_every_paper_recipe_names_its_source():
    for name in CELLS:
        text = (recipe_dir() / f"{name}.yaml").read_text()
        assert "arXiv" in text or "variant of this package" in text


def test_cpu_recipes_share_the_local_recipes_section():
    from agent_envs.trainers.recipe import load_recipe

    for task in ("ezpoints", "sokoban"):
        for method in ("grpo", "gigpo", "g2po"):
            section, _ = sections(composed_recipe(f"cpu_{task}_{method}"))
            assert section == load_recipe(f"{task}_tiny_{method}").agent_envs


CPU = "cpu_ezpoints_gigpo"


@pytest.fixture(scope="module")
def composed():
    return composed_recipe(CPU)


def changed(config, overrides):
    """Return a copy with some keys changed, as fast as composing again is slow."""
    from omegaconf import OmegaConf, open_dict

    config = copy.deepcopy(config)
    with open_dict(config):
        for override in overrides:
            key, _, value = override.partition("=")
            OmegaConf.update(config, key, yaml.safe_load(value))
    return config


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["algorithm.use_kl_in_reward=true"], ["use_kl_in_reward", "use_kl_loss"]),
        (["algorithm.adv_estimator=grpo"], ["adv_estimator", "agent_envs.estimator"]),
        (["agent_envs.estimator=gigop"], ["gigop", "'gigpo'"]),
        (["agent_envs.estimator=gae"], ["critic.enable=True"]),
        (["critic.enable=true"], ["critic.enable=False"]),
        (["agent_envs.group_size=1"], ["group_size is 1"]),
        (["actor_rollout_ref.rollout.n=4"], ["rollout.n=4", "agent_envs.group_size=8"]),
        (["data.train_batch_size=4"], ["train_batch_size=4", "agent_envs.num_groups=8"]),
        (
            ["actor_rollout_ref.actor.ppo_mini_batch_size=1", "trainer.n_gpus_per_node=3"],
            ["8 turns", "3 data-parallel"],
        ),
        (
            [
                "actor_rollout_ref.actor.use_dynamic_bsz=false",
                "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=48",
            ],
            ["128 turns", "ppo_micro_batch_size_per_gpu=48"],
        ),
        (["trainer.total_training_steps=null"], ["total_training_steps"]),
        (["trainer.v1.trainer_mode=separate_async"], ["separate_async", "colocate_async"]),
        (["algorithm.filter_groups.enable=true", "algorithm.filter_groups.metric=acc"], ["'acc'", "outcome"]),
        (
            ["agent_envs.env_kwargs.obs_mode=image", "actor_rollout_ref.actor.use_dynamic_bsz=false"],
            ["dynamic_bsz=True"],
        ),
        (["agent_envs.env_kwargs.obs_mode=image", "agent_envs.context=concatenated"], ["concatenated", "context=step"]),
        (["actor_rollout_ref.rollout.top_p=0.9"], ["top_p"]),
        (["verl.max_turn_tokens=8"], ["max_turn_tokens"]),
        (["agent_envs.memory=windw"], ["windw", "'window'"]),
        (["verl.estimator_kwargs.lamb=1"], ["lamb", "'lam'"]),
        (["verl.estimator_kwargs.gamma=1"], ["gamma"]),
    ],
)
def test_bad_settings_are_refused(composed, overrides, words):
    with pytest.raises(ValueError) as caught:
        check_config(changed(composed, overrides))
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["agent_envs.gama=0.9"], ["agent_envs.gama", "'gamma'"]),
        (["verl.executr=serial"], ["verl.executr", "'executor'"]),
        (["agent_envs.similarity=1.5"], ["agent_envs.similarity", "1.5"]),
        (["verl.num_workers=0"], ["verl.num_workers"]),
        (["verl.random_model=qwen2"], ["tiny_model", "random_model"]),
    ],
)
def test_bad_sections_are_refused(overrides, words):
    with pytest.raises(ValueError) as caught:
        compose(CPU, overrides)
    for word in words:
        assert word in str(caught.value)


def test_unknown_recipes_and_environments():
    with pytest.raises(ValueError, match="Did you mean 'cpu_ezpoints_gigpo'"):
        compose("cpu_ezpoint_gigpo")
    with pytest.raises(ValueError, match="does not exist"):
        compose("missing.yaml")
    section, _ = sections(compose(CPU, ["agent_envs.env_id=agent_envs/EZPoint-v0"]))
    with pytest.raises(ValueError, match="Did you mean 'agent_envs/EZPoints-v0'"):
        check_environment(section, VerlSection())


def test_threads_are_refused_where_the_environment_forbids_them(monkeypatch):
    section, options = sections(compose(CPU, ["verl.executor=threads"]))
    check_environment(section, options)
    monkeypatch.setattr("agent_envs.core.AgentEnv.no_threads", "It owns a device.")
    with pytest.raises(ValueError, match="verl.executor=threads does not go with .*EZPoints-v0: It owns a device"):
        check_environment(section, options)


def test_a_file_may_build_on_a_bundled_recipe(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(f"defaults:\n  - {CPU}\n  - _self_\nagent_envs:\n  seed: 7\n")
    config = compose(path, ["trainer.total_training_steps=3"])
    check_config(config)
    assert config.agent_envs.seed == 7 and config.trainer.total_training_steps == 3
    assert config.trainer.experiment_name == "mine"


def test_command_line(capsys):
    assert main(["--list"]) == 0
    assert "alfworld_gigpo_qwen2.5-1.5b" in capsys.readouterr().out
    assert main([]) == 2
    assert main(["nothing"]) == 2
    assert "Unknown verl recipe 'nothing'" in capsys.readouterr().err
    assert main([CPU, "--show", "agent_envs.seed=5"]) == 0
    assert "seed: 5" in capsys.readouterr().out


def test_train_command_hands_over(monkeypatch, capsys):
    from agent_envs.cli import main as cli
    from agent_envs.trainers import verl

    calls = []
    monkeypatch.setattr(verl, "run", lambda recipe, overrides: calls.append((recipe, overrides)))
    assert cli(["train", CPU, "agent_envs.seed=1", "--backend", "verl", "--out", "runs/x", "--resume"]) == 0
    assert calls == [(CPU, ["agent_envs.seed=1", "trainer.default_local_dir=runs/x", "trainer.resume_mode=auto"])]
    assert cli(["train", "--backend", "verl", "--list"]) == 0
    assert "webshop_g2po_qwen2.5-7b" in capsys.readouterr().out
    assert cli(["train", "--backend", "verl"]) == 2
