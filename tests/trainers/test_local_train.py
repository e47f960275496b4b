from __future__ import annotations

import json
import os
import shutil
import signal
from dataclasses import fields, replace
from pathlib import Path

import corridor_env
import gymnasium as gym
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from agent_envs.errors import CheckpointError, DependencyNotInstalled  # noqa: E402
from agent_envs.tags import TagSpec  # noqa: E402
from agent_envs.trainers.local import figures, warmstart  # noqa: E402
from agent_envs.trainers.local import train as train_module  # noqa: E402
from agent_envs.trainers.local.checkpoint import open_checkpoint, write_folder  # noqa: E402
from agent_envs.trainers.local.evaluation import evaluate_policy  # noqa: E402
from agent_envs.trainers.local.interrupts import interrupts_held  # noqa: E402
from agent_envs.trainers.local.policy import build_tokenizer  # noqa: E402
from agent_envs.trainers.local.report import MetricsLog, read_metrics  # noqa: E402
from agent_envs.trainers.local.train import evaluate_checkpoint, evaluate_recipe, train  # noqa: E402
from agent_envs.trainers.recipe import LocalSection, Recipe, recipe_from_dict  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def corridor():
    corridor_env.register()
    yield
    gym.registry.pop(corridor_env.ENV_ID)


DRAWN = {name: getattr(figures, name) for name in ("draw_curves", "draw_step_groups", "draw_time_budget")}
LOCAL_KEYS = {item.name for item in fields(LocalSection)}


def recipe(**changes: object) -> Recipe:
    section = {
        "env_id": corridor_env.ENV_ID,
        "num_groups": 2,
        "group_size": 3,
        "prompt": "compact",
        "memory": "none",
        "panel": {"size": "all"},
    }
    local = {
        "hidden_size": 16,
        "num_layers": 1,
        "num_heads": 2,
        "device": "cpu",
        "iterations": 4,
        "max_prompt_tokens": 64,
        "max_response_tokens": 3,
        "mini_batch_rows": 16,
        "micro_batch_rows": 6,
        "checkpoint_every": 2,
        "keep_checkpoints": 2,
        "eval_every": 3,
        "clone_episodes": 16,
        "clone_target": 0.05,
        "clone_check_every": 5,
        "clone_lr": 1e-2,
    }
    for key, value in changes.items():
        (local if key in LOCAL_KEYS else section)[key] = value
    return recipe_from_dict({"agent_envs": section, "local": local}, name="corridor")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """One folder for all runs, so that they share their warm start."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def straight(runs):
    """A finished run of four iterations; tests copy it before they change anything."""
    return train(recipe(), runs / "straight")


@pytest.fixture(autouse=True)
def no_pictures(straight, monkeypatch):
    """Drawing costs more than training here; the fixture above has drawn its pictures."""
    for name in DRAWN:
        monkeypatch.setattr(figures, name, lambda *args, **kwargs: None)


def model_bytes(folder: Path, iteration: int) -> bytes:
    return (folder / "checkpoints" / f"iteration_{iteration:06d}" / "model" / "model.safetensors").read_bytes()


def lines(folder: Path) -> list[dict]:
    timeless = [{k: v for k, v in line.items() if k[:5] != "time/"} for line in read_metrics(folder / "metrics.jsonl")]
    assert timeless
    return timeless


def copy_of(run: Path, target: Path) -> Path:
    shutil.copytree(run, target)
    return target


def test_a_run_leaves_everything_behind(straight):
    folder = straight.run_dir
    names = {item.name for item in folder.iterdir()}
    assert names == {
        *("recipe.yaml", "metrics.jsonl", "panel.json", "result.json", "checkpoints"),
        *("curves.png", "step_groups.png", "time_budget.png"),
    }
    for picture in folder.glob("*.png"):
        assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    result = json.loads((folder / "result.json").read_text())
    low, high = result["final"]["success_interval"]
    assert low <= result["final"]["success_rate"] <= high
    metrics = straight.metrics
    assert [line["iteration"] for line in metrics] == [0, 1, 2, 3, 4]
    assert [line["iteration"] for line in metrics if "eval/success" in line] == [0, 3, 4]
    assert all(sum(line["step_groups"].values()) == line["batch/rows"] for line in metrics[:4])
    assert [item.name for item in sorted((folder / "checkpoints").iterdir())] == [
        "iteration_000002",
        "iteration_000004",
    ]


@pytest.mark.parametrize("changes", [{}, {"kl_coef": 0.1, "dynamic_sampling": True, "max_batches": 3}])
def test_resume_is_exact(runs, changes, straight):
    four = straight.run_dir
    if changes:
        four = train(recipe(**changes), runs / f"four {len(changes)}").run_dir
    train(recipe(iterations=2, **changes), runs / f"two {len(changes)}")
    train(recipe(**changes), runs / f"two {len(changes)}", resume=True)
    assert model_bytes(four, 4) == model_bytes(runs / f"two {len(changes)}", 4)
    assert lines(four) == lines(runs / f"two {len(changes)}")
    assert (four / "result.json").read_text().split('"final"')[1] == (
        (runs / f"two {len(changes)}" / "result.json").read_text().split('"final"')[1]
    )


def test_same_seed_same_run_and_another_seed_another(runs, straight):
    train(recipe(), runs / "again")
    train(recipe(seed=1, iterations=1), runs / "other")
    assert lines(runs / "again") == lines(straight.run_dir)
    assert model_bytes(runs / "again", 4) == model_bytes(straight.run_dir, 4)
    assert lines(runs / "other")[0] != lines(straight.run_dir)[0]


def test_global_generators_are_neither_read_nor_written(tmp_path):
    import random

    import numpy as np

    random.seed(3), np.random.seed(3), torch.manual_seed(3)
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    train(recipe(iterations=1), tmp_path / "run")
    assert before == (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())


def test_ctrl_c_keeps_the_last_finished_iteration(runs, monkeypatch, straight, capsys):
    calls = []
    sample_groups = train_module.sample_groups

    def interrupted(*args, **kwargs):
        calls.append(kwargs["iteration"])
        if kwargs["iteration"] == 3:
            raise KeyboardInterrupt
        return sample_groups(*args, **kwargs)

    monkeypatch.setattr(train_module, "sample_groups", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(recipe(), runs / "ctrl_c_keeps_the_las")
    out = capsys.readouterr().out
    assert "--resume" in out and "iteration_000003" in out
    assert open_checkpoint(runs / "ctrl_c_keeps_the_las").iteration == 3
    monkeypatch.undo()
    train(recipe(), runs / "ctrl_c_keeps_the_las", resume=True)
    assert lines(runs / "ctrl_c_keeps_the_las") == lines(straight.run_dir)
    assert model_bytes(runs / "ctrl_c_keeps_the_las", 4) == model_bytes(straight.run_dir, 4)


def test_a_ctrl_c_inside_an_update_waits_for_its_end(runs, monkeypatch):
    update = train_module.update

    def pressed(*args, **kwargs):
        os.kill(os.getpid(), signal.SIGINT)
        return update(*args, **kwargs)

    monkeypatch.setattr(train_module, "update", pressed)
    with pytest.raises(KeyboardInterrupt):
        train(recipe(), runs / "a_ctrl_c_inside_an_u")
    assert open_checkpoint(runs / "a_ctrl_c_inside_an_u").iteration == 1
    assert [line["iteration"] for line in lines(runs / "a_ctrl_c_inside_an_u")] == [0]


def test_held_interrupts_come_at_the_end_of_the_block():
    before = signal.getsignal(signal.SIGINT)
    steps = []
    with pytest.raises(KeyboardInterrupt), interrupts_held():
        os.kill(os.getpid(), signal.SIGINT)
        steps.append("worked on")
    assert steps == ["worked on"] and signal.getsignal(signal.SIGINT) is before
    with interrupts_held():
        pass


def damage_byte(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize(
    ("name", "damage", "word"),
    [
        ("model/model.safetensors", damage_byte, "damaged"),
        ("optimizer.safetensors", lambda file: file.write_bytes(file.read_bytes()[:100]), "damaged"),
        ("model/tokenizer.json", Path.unlink, "missing"),
        ("state.json", lambda file: file.write_text("{"), "cannot be read"),
        ("state.json", lambda file: file.write_text('{"format": 99}'), "format 99"),
        ("state.json", lambda file: file.write_text('{"format": 1}'), "no files"),
        ("state.json", Path.unlink, "cannot be read"),
    ],
)
def test_a_damaged_checkpoint_is_named(tmp_path, straight, name, damage, word):
    run = copy_of(straight.run_dir, tmp_path / "run")
    file = run / "checkpoints" / "iteration_000004" / name
    damage(file)
    with pytest.raises(CheckpointError) as caught:
        train(recipe(iterations=6), run, resume=True)
    assert str(file) in str(caught.value) and word in str(caught.value) and "older one" in str(caught.value)
    with pytest.raises(CheckpointError):
        evaluate_checkpoint(run)


def test_a_checkpoint_of_another_recipe_is_refused(tmp_path, straight):
    run = copy_of(straight.run_dir, tmp_path / "run")
    with pytest.raises(CheckpointError, match="agent_envs.estimator='gigpo', the recipe says 'grpo'"):
        train(recipe(estimator="grpo"), run, resume=True)
    with pytest.raises(CheckpointError, match=r"local\.mini_batch_rows=16"):
        train(recipe(mini_batch_rows=8), run, resume=True)


def test_run_folders_that_do_not_fit(tmp_path, straight):
    with pytest.raises(CheckpointError, match="holds a run already"):
        train(recipe(), straight.run_dir)
    with pytest.raises(CheckpointError, match="holds no checkpoint"):
        train(recipe(), tmp_path / "empty", resume=True)
    run = copy_of(straight.run_dir, tmp_path / "run")
    (run / "metrics.jsonl").write_text("")
    with pytest.raises(CheckpointError, match=r"metrics\.jsonl has 0 bytes"):
        train(recipe(iterations=6), run, resume=True)


def test_evaluation_of_checkpoint_run_and_recipe(tmp_path, straight):
    run = evaluate_checkpoint(straight.run_dir)
    assert run.tasks == evaluate_checkpoint(straight.checkpoint).tasks == straight.final.tasks
    start = evaluate_recipe(recipe(), cache=straight.run_dir.parent / "warm_starts")
    assert start.tasks == straight.start.tasks
    part = replace(straight.final.panel, indices=(3, 5))
    part.save(tmp_path / "panel.json")
    assert [task.task_index for task in evaluate_checkpoint(straight.run_dir, tmp_path / "panel.json").tasks] == [3, 5]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"env_id": "agent_envs/EZPoint-v0"}, "Did you mean 'agent_envs/EZPoints-v0'"),
        ({"estimator": "gigpoo"}, "Did you mean 'gigpo'"),
        ({"memory": "windows"}, "Did you mean 'window'"),
        ({"prompt": "compactt"}, "Did you mean 'compact'"),
        ({"group_size": 1}, "group_size is 1"),
        ({"estimator": "gae"}, "value"),
        ({"env_id": "agent_envs/NumberLine-v0"}, "obs_mode=text"),
        ({"context": "concatenated"}, "context=step"),
    ],
)
def test_bad_recipes_fail_before_anything_is_played(tmp_path, changes, words):
    with pytest.raises(ValueError, match=words):
        train(recipe(**changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_warm_starts_are_shared_by_algorithms_and_reach_their_target(tmp_path):
    said: list[str] = []
    policies = [
        warmstart.initial_policy(recipe(estimator=name, clone_target=0.3), tmp_path, said.append)
        for name in ("grpo", "g2po")
    ]
    assert sum("until 30%" in line for line in said) == 1 and len(list(tmp_path.iterdir())) == 1
    first, second = (policy.model.state_dict() for policy in policies)
    assert all(torch.equal(first[name], second[name]) for name in first)
    history = json.loads(next(tmp_path.glob("*/warm_start.json")).read_text())["success_by_step"]
    assert history[-1][1] >= 0.3 and all(success < 0.3 for _, success in history[:-1])


def test_a_warm_start_that_falls_short_warns(tmp_path):
    with pytest.warns(UserWarning, match=r"below local\.clone_target=99\.0%"):
        warmstart.initial_policy(recipe(clone_target=0.99, clone_max_steps=2), tmp_path, lambda text: None)


def test_dagger_copies_the_oracle_wherever_play_leads(tmp_path, monkeypatch):
    walks = warmstart.oracle_turns(recipe(clone_noise=1.0))
    assert walks and all(turn.reply == "right</action>" for turn in walks)  # the walks know no other action
    pool = ["left", "right", "dance"]
    monkeypatch.setattr(warmstart, "_oracle", lambda env: [*env.unwrapped.example_actions(), *pool])
    copied = {turn.reply for turn in warmstart.oracle_turns(recipe(clone_noise=1.0))}
    assert copied == {"left</action>", "right</action>", "dance</action>"}
    taught = warmstart.oracle_turns(recipe(clone_noise=1.0, clone_dagger=True))
    assert {turn.reply for turn in taught} == {"right</action>"} and len({turn.prompt for turn in taught}) == 5

    seen: set[tuple[int, ...]] = set()
    monkeypatch.setattr(
        warmstart, "_clone_step", lambda policy, optimizer, batch: seen.update(tuple(p) for p, _ in batch)
    )
    real = warmstart._measure

    def measure(*args):
        success, answers = real(*args)
        measured.append(answers)
        return success, {**answers, (3, 4, 5): "left"}

    measured: list[dict] = []
    monkeypatch.setattr(warmstart, "_measure", measure)
    short = {"clone_target": 0.99, "clone_max_steps": 10}
    with pytest.warns(UserWarning, match="below local.clone_target"):
        warmstart.initial_policy(recipe(clone_dagger=True, **short), tmp_path, lambda text: None)
    assert len(measured) == 2 and all(set(answers.values()) == {"right"} for answers in measured)
    assert (3, 4, 5) in seen  # what a measurement found is copied afterwards
    with pytest.warns(UserWarning, match="below local.clone_target"):
        warmstart.initial_policy(recipe(**short), tmp_path, lambda text: None)
    assert measured[2:] == [{}, {}]


@pytest.mark.parametrize(
    ("spec", "action", "reply"),
    [
        (TagSpec(think=None, response_prefix="<action>", stop="</action>"), "up", "up</action>"),
        (TagSpec(think=None), "up", "<action>up</action>"),
        (TagSpec(), "go to shelf 1", "<think></think><action>go to shelf 1</action>"),
        (TagSpec(think=None, actions=("search", "answer")), "<answer>Paris</answer>", "<answer>Paris</answer>"),
    ],
)
def test_oracle_replies_are_read_as_the_action(spec, action, reply):
    assert warmstart.oracle_reply(spec, action) == reply
    assert spec.env_action(spec.parse(reply)) == action


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    def fail(path: Path) -> None:
        (path / "half").touch()
        raise RuntimeError("disk full")

    with pytest.raises(RuntimeError):
        write_folder(tmp_path / "target", fail)
    assert list(tmp_path.iterdir()) == []
    write_folder(tmp_path / "target", lambda path: (path / "first").touch())
    write_folder(tmp_path / "target", lambda path: (path / "second").touch())  # the other process was faster
    assert [item.name for item in (tmp_path / "target").iterdir()] == ["first"]


def test_metrics_are_cut_to_what_was_saved(tmp_path):
    log = MetricsLog(tmp_path / "metrics.jsonl")
    log.write({"iteration": 0})
    size = log.num_bytes
    log.write({"iteration": 1})
    again = MetricsLog(tmp_path / "metrics.jsonl", keep_bytes=size)
    again.write({"iteration": 1, "new": True})
    assert again.read() == [{"iteration": 0}, {"iteration": 1, "new": True}]


@pytest.mark.parametrize("family", ["GPT2", "Qwen2"])
def test_any_causal_lm_by_path(tmp_path, family):
    import transformers

    tokenizer = build_tokenizer(["You observe: at 0, goal 2. Your task: go to the goal <action>right</action>"])
    tokenizer.chat_template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"
    if family == "GPT2":
        shape = {"n_embd": 16, "n_layer": 1, "n_head": 2}
    else:
        shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
        shape["num_key_value_heads"] = 1
    config = getattr(transformers, f"{family}Config")(
        vocab_size=len(tokenizer), eos_token_id=1, bos_token_id=1, **shape
    )
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    changes = {"model": str(tmp_path / "model"), "clone_target": 0.0, "prompt": "papers", "memory": "window"}
    result = train(recipe(iterations=1, max_prompt_tokens=900, kl_coef=0.01, **changes), tmp_path / "run")
    line = result.metrics[0]
    assert line["rollout/prompt_tokens"] > 100 and line["update/logprob_gap"] < 1e-5
    assert line["update/kl_reference"] == pytest.approx(0.0, abs=1e-3) and not (tmp_path / "warm_starts").exists()


def test_step_group_shares_and_pictures_of_nothing(tmp_path):
    shares = figures.step_group_shares({"1": 2, "3": 4, "4": 2, "40": 2})
    assert shares == [0.2, 0.0, 0.6, 0.0, 0.0, 0.0, 0.2]
    DRAWN["draw_step_groups"]([], tmp_path / "groups.png")
    DRAWN["draw_curves"]({"GRPO": []}, tmp_path / "curves.png", title="nothing")
    assert len(list(tmp_path.glob("*.png"))) == 2


def test_tensorboard_is_optional(tmp_path):
    try:
        import tensorboard  # noqa: F401
    except ImportError:
        with pytest.raises(DependencyNotInstalled, match="pip install tensorboard"):
            MetricsLog(tmp_path / "metrics.jsonl", tensorboard=True)
        return
    log = MetricsLog(tmp_path / "metrics.jsonl", tensorboard=True)
    log.write({"iteration": 0, "x": 1.0})
    log.close()
    assert any((tmp_path / "tensorboard").iterdir())


def test_another_evaluation_size_gives_the_same_score(straight):
    checkpoint = open_checkpoint(straight.run_dir)
    chosen, local = checkpoint.recipe.agent_envs, checkpoint.recipe.local
    few = evaluate_policy(checkpoint.load_policy(), chosen, local, straight.final.panel, num_envs=3)
    assert few.tasks == straight.final.tasks
