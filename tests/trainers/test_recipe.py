from __future__ import annotations

import dataclasses

import pytest

pytest.importorskip("yaml")

from agent_envs.trainers.recipe import (  # noqa: E402
    AgentEnvsSection,
    LocalSection,
    Recipe,
    load_recipe,
    recipe_from_dict,
    recipe_names,
)

MINIMAL = "agent_envs:\n  env_id: agent_envs/EZPoints-v0\n"


def write(tmp_path, text: str, name: str = "mine.yaml"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_issue_fields_are_the_fields():
    fields = [item.name for item in dataclasses.fields(AgentEnvsSection)]
    assert (
        fields
        == (
            "env_id env_kwargs split num_groups group_size memory memory_kwargs prompt context estimator norm gamma w "
            "similarity penalty penalty_mode panel seed"
        ).split()
    )


def test_bundled_recipes_load():
    names = recipe_names()
    for env in ("ezpoints", "sokoban"):
        for estimator in ("grpo", "gigpo", "g2po"):
            assert f"{env}_tiny_{estimator}" in names
            assert load_recipe(f"{env}_tiny_{estimator}").agent_envs.estimator == estimator
    assert not any(name.startswith("_") for name in names)
    for name in names:
        assert load_recipe(name).name == name


def test_the_three_algorithms_differ_in_the_estimator_only():
    for env in ("ezpoints", "sokoban"):
        plain = [load_recipe(f"{env}_tiny_{name}").to_dict() for name in ("grpo", "gigpo", "g2po")]
        for data in plain:
            del data["agent_envs"]["estimator"]
        assert plain[0] == plain[1] == plain[2]


def test_defaults_and_overrides(tmp_path):
    path = write(tmp_path, MINIMAL)
    recipe = load_recipe(
        path,
        overrides=["local.lr=1e-4", "agent_envs.env_kwargs.max_turns=6", "agent_envs.norm=null", "local.device=cpu"],
    )
    assert recipe.name == "mine" and recipe.local.lr == 1e-4 and recipe.agent_envs.norm is None
    assert recipe.agent_envs.env_kwargs == {"max_turns": 6}
    assert recipe.agent_envs.gamma == 0.95 and recipe.local.iterations == LocalSection().iterations
    assert load_recipe(path).agent_envs.env_kwargs == {}


def test_number_without_a_dot_is_a_number(tmp_path):
    recipe = load_recipe(write(tmp_path, MINIMAL + "  gamma: 1\nlocal: {lr: 3e-4}\n"))
    assert recipe.local.lr == 3e-4 and type(recipe.agent_envs.gamma) is float


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("  gama: 0.9\n", ValueError, ["agent_envs.gama", "'gamma'"]),
        ("local: {learning_rate: 1}\n", ValueError, ["local.learning_rate"]),
        ("locale: {lr: 1}\n", ValueError, ["'locale'", "'local'"]),
        ("  num_groups: 2.5\n", TypeError, ["agent_envs.num_groups", "int", "2.5"]),
        ("  num_groups: true\n", TypeError, ["agent_envs.num_groups", "True"]),
        ("  num_groups: 0\n", ValueError, ["agent_envs.num_groups", ">= 1", "0"]),
        ("  gamma: high\n", TypeError, ["agent_envs.gamma", "number", "high"]),
        ("  gamma: 1.5\n", ValueError, ["agent_envs.gamma", "[0, 1]", "1.5"]),
        ("  gamma: .nan\n", TypeError, ["agent_envs.gamma", "finite"]),
        ("  similarity: 1.0\n", ValueError, ["agent_envs.similarity", "(0, 1)", "1.0"]),
        ("  context: stepwise\n", ValueError, ["agent_envs.context", "step, concatenated", "stepwise"]),
        ("  norm: std\n", ValueError, ["agent_envs.norm", "mean_std_norm"]),
        ("  env_kwargs: [1]\n", TypeError, ["agent_envs.env_kwargs", "mapping"]),
        ("  panel: 7\n", TypeError, ["agent_envs.panel", "7"]),
        ("  panel: {sise: 7}\n", ValueError, ["agent_envs.panel.sise", "'size'"]),
        ("local: 3\n", TypeError, ["'local:'", "3"]),
        ("local: {dtype: float16}\n", ValueError, ["local.dtype", "bfloat16"]),
        ("local: {tensorboard: 1}\n", TypeError, ["local.tensorboard", "true or false"]),
    ],
)
def test_bad_values_are_named(tmp_path, text, error, words):
    with pytest.raises(error) as caught:
        load_recipe(write(tmp_path, MINIMAL + text))
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("text", ["", "- 1\n", "agent_envs: [\n", "local: {}\n", "agent_envs: {seed: 1}\n"])
def test_files_that_are_no_recipe(tmp_path, text):
    with pytest.raises((ValueError, TypeError)):
        load_recipe(write(tmp_path, text))


def test_unknown_names(tmp_path):
    with pytest.raises(ValueError, match="Did you mean 'ezpoints_tiny_gigpo'"):
        load_recipe("ezpoint_tiny_gigpo")
    with pytest.raises(ValueError, match="does not exist"):
        load_recipe(tmp_path / "missing.yaml")


@pytest.mark.parametrize("override", ["lr=1", "local.lr", "local..lr=1", "local.lr=[", "local.lr=fast", "local.lrr=1"])
def test_bad_overrides(tmp_path, override):
    with pytest.raises((ValueError, TypeError), match=r"lr"):
        load_recipe(write(tmp_path, MINIMAL), overrides=[override])


def test_extends_lays_one_file_over_another(tmp_path):
    write(
        tmp_path, MINIMAL + "  env_kwargs: {max_turns: 5, obs_mode: text}\nlocal: {lr: 0.5, epochs: 3}\n", "base.yaml"
    )
    top = write(tmp_path, "extends: base.yaml\nagent_envs: {env_kwargs: {max_turns: 6}}\nlocal: {lr: 0.1}\n")
    recipe = load_recipe(top)
    assert recipe.agent_envs.env_kwargs == {"max_turns": 6, "obs_mode": "text"}
    assert (recipe.local.lr, recipe.local.epochs) == (0.1, 3)


def test_a_file_may_extend_a_bundled_recipe(tmp_path):
    folder = tmp_path / "x"
    folder.mkdir()
    recipe = load_recipe(write(folder, "extends: ezpoints_tiny_grpo\nagent_envs: {seed: 9}\n"))
    assert recipe.agent_envs.seed == 9 and recipe.agent_envs.estimator == "grpo"


def test_a_circle_of_extends_is_refused(tmp_path):
    write(tmp_path, "extends: b.yaml\n", "a.yaml")
    with pytest.raises(ValueError, match="circle: b -> a -> b"):
        load_recipe(write(tmp_path, "extends: a.yaml\n", "b.yaml"))


def test_saved_recipe_loads_to_the_same(tmp_path):
    recipe = load_recipe("sokoban_tiny_g2po", overrides=["local.lr=2e-5"])
    recipe.save(tmp_path / "saved.yaml")
    again = load_recipe(tmp_path / "saved.yaml")
    assert (again.agent_envs, again.local) == (recipe.agent_envs, recipe.local)
    assert recipe_from_dict(recipe.to_dict(), name=recipe.name) == recipe
    assert isinstance(again, Recipe)
