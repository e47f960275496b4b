"""The command line: examples in every help page, clear errors, playing from a pipe."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import agent_envs.cli as cli


def run(capsys, *argv):
    """Return (exit status, stdout, stderr)."""
    try:
        code = cli.main(list(argv))
    except SystemExit as error:
        code = error.code
    out = capsys.readouterr()
    return code, out.out, out.err


@pytest.mark.parametrize("command", list(cli.COMMANDS))
def test_help_has_examples(capsys, command):
    code, out, _ = run(capsys, command, "--help")
    assert code == 0 and "examples:" in out and f"agent-envs {command}" in out


def test_help_lists_the_commands(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0 and all(command in out for command in cli.COMMANDS)


def test_version(capsys):
    code, out, _ = run(capsys, "--version")
    assert code == 0 and out.startswith("agent-envs 0.")


def test_unknown_command_suggests(capsys):
    code, _, err = run(capsys, "lst")
    assert code == 2 and "Did you mean 'list'?" in err


def test_list_names_every_id(capsys):
    code, out, _ = run(capsys, "list")
    assert code == 0 and "agent_envs/Sokoban-v0" in out and "agent_envs/EZPoints-v0" in out
    code, out, _ = run(capsys, "list", "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert {row["id"] for row in rows} >= {"agent_envs/Sokoban-v0"} and all(row["description"] for row in rows)


def test_check_passes_on_a_shipped_env(capsys):
    code, out, _ = run(capsys, "check", "NumberLine")
    assert code == 0 and "FAIL" not in out and "13 of 13 checks passed" in out


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (("check", "agent_envs/Sokobun-v0"), "Did you mean 'agent_envs/Sokoban-v0'?"),
        (("check", "Sokobann"), "Did you mean 'agent_envs/Sokoban-v0'?"),
        (("check", "Sokoban", "--import", "no_such_module"), "Cannot import no_such_module: No module named"),
        (("play", "sokoban", "group_size=2"), "leave out group_size"),
        (("check", "CartPole-v1"), "is not an environment of agent_envs"),
        (("check", "Sokoban", "boxes"), "Expected key=value"),
        (("check", "Sokoban", "--group-size", "1"), "--group-size must be >= 2"),
        (("play", "Sokoban", "--split", "dev"), "Unknown split 'dev'"),
        (("play", "Sokoban", "--task", "999999999"), "task_index must be in"),
        (("play", "Sokoban", "no_such=1"), "no_such"),
        (("play", "my_lab/Maze-v0"), "my_module:my_lab/Maze-v0"),
        (("train",), "Name a recipe"),
        (("train", "alfworld_gigpo_qwen2.5-1.5b"), "add --backend verl"),
        (("train", "ezpoints_papers_gigpo", "local.model=/no/such/model"), "local.model=/no/such/model is no folder"),
        (("train", "ezpoints_tiny_gigp"), "ezpoints_tiny_gigpo"),
        (("train", "ezpoints_tiny_gigpo", "agent_envs.estimator=gigpoo"), "gigpo"),
        (("train", "ezpoints_tiny_gigpo", "agent_envs.memory=windw"), "window"),
        (("train", "ezpoints_tiny_gigpo", "agent_envs.env_id=agent_envs/EZPoint-v0"), "EZPoints"),
        (("eval", "no_such_recipe"), "no_such_recipe"),
        (("eval", "runs/none"), "runs/none does not exist"),
    ],
)
def test_bad_arguments_name_value_and_fix(capsys, argv, text):
    code, _, err = run(capsys, *argv)
    assert code == 2 and text in err and "Traceback" not in err


def test_play_from_a_pipe(tmp_path):
    argv = [sys.executable, "-m", "agent_envs", "play", "EZPoints", "obs_mode=text", "--split", "test", "--task", "0"]
    argv += ["--frames", tmp_path / "frames"]
    done = subprocess.run(argv, input=":hint\n:valid\nnonsense\n:reset\n:quit\n", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "hint: " in done.stdout and "refused (" in done.stdout and done.stdout.count("state ") >= 3
    assert (tmp_path / "frames/turn_000.png").stat().st_size > 500


def test_play_to_the_end(monkeypatch, capsys):
    lines = iter(["left"] * 15)
    monkeypatch.setattr("builtins.input", lambda prompt="": next(lines))
    code, out, _ = run(capsys, "play", "Sokoban", "--seed", "1")
    assert code == 0 and "end of episode" in out


def test_own_environments_are_found_in_the_current_folder(tmp_path, monkeypatch):
    """The documentation's own environment, checked as the page says, by the installed command's entry point."""
    page = (Path(__file__).resolve().parents[2] / "docs/custom_env.md").read_text(encoding="utf-8")
    (tmp_path / "my_lab").mkdir()
    (tmp_path / "my_lab/envs.py").write_text(page.split("```python\n")[1].split("```")[0], encoding="utf-8")
    code = "import sys; sys.path.remove(''); from agent_envs.cli import main; sys.exit(main(sys.argv[1:]))"
    argv = [sys.executable, "-c", code, "check", "my_lab.envs:my_lab/Lock-v0"]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0 and "13 of 13 checks passed" in done.stdout, done.stdout + done.stderr


def test_play_shows_words_and_explains_its_commands(monkeypatch, capsys):
    lines = iter([":help", ":quit"])
    monkeypatch.setattr("builtins.input", lambda prompt="": next(lines))
    code, out, _ = run(capsys, "play", "EZPoints", "--seed", "1")
    assert code == 0 and "Cards: " in out and "Unknown command ':help'. Commands: :hint" in out and "reward" not in out


def test_train_shows_the_recipe(capsys):
    code, out, _ = run(capsys, "train", "ezpoints_tiny_gigpo", "local.lr=1e-4", "--show")
    assert code == 0 and "estimator: gigpo" in out and "lr: 0.0001" in out
