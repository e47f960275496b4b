"""Parts of AppWorld support that need no process: texts, task lists, keys, scores, the mini world's own tasks."""

import ast
import json
import sys
import types

import gymnasium as gym
import pytest
from appworld_fake_env import FakeAppWorldEnv, make_data
from gymnasium.error import DependencyNotInstalled

import agent_envs
from agent_envs.envs.appworld import paths
from agent_envs.envs.appworld.client import AppWorldClient, Evaluation, WorldError
from agent_envs.envs.appworld.env import AppWorldEnv, normalise, strip_fence
from agent_envs.envs.appworld.install import Install
from agent_envs.envs.appworld.remote import RemoteWorld
from agent_envs.envs.appworld.scores import goal_completion
from agent_envs.envs.appworld.server.engine import namespace_digest
from agent_envs.envs.appworld.server.mini_build import TEMPLATES
from agent_envs.envs.appworld.server.mini_people import APPS, all_friends, make_people
from agent_envs.envs.appworld.server.mini_tasks import scenario_id
from agent_envs.envs.appworld.server.world_server import cut_middle
from agent_envs.envs.appworld.tasks import load_tasks, mini_splits, scenario_of
from agent_envs.prompts.library.app_world import PROMPTS


@pytest.mark.parametrize(
    ("reply", "code", "ok"),
    [
        ("<think>t</think><code>print(1)</code>", "print(1)", True),
        ("<think>maybe <code>bad()</code></think><code>good()</code>", "good()", True),
        ("<think>maybe <code>bad()</code></think>", "", False),
        ("<think>t</think><code>a()</code> then <CODE>b()</CODE>", "b()", True),
        ("<think>t</think>print(1)", "", False),
        ("<think>t</think>```python\nprint(1)\n```", "", False),
        ("<think>t</think><code>  </code>", "", False),
        ("<think>t</think><code>```python\nx = '`'\n```</code>", "x = '`'", True),
        ("print(1)", "", False),
    ],
)
def test_what_of_a_reply_is_executed(reply, code, ok):
    parsed = PROMPTS.spec.parse(reply)
    assert parsed.format_ok is ok and strip_fence(PROMPTS.spec.env_action(parsed)) == code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("```\na\n```", "a"),
        ("````py\n```\n````", "```"),
        ("\n\n  x = 1\n  y = 2\n", "  x = 1\n  y = 2"),
        ("a\n```\nb\n```", "a\n```\nb\n```"),
        ("```", "```"),
        ("`" * 4000, "`" * 4000),
    ],
)
def test_one_fence_around_all_of_it_is_removed(text, code):
    assert strip_fence(text) == code


def test_results_count_without_blanks_and_addresses():
    assert normalise(" <f at 0x7fA0>\n") == "<f at 0x>" and normalise("10x") == "10x"


def test_cut_keeps_both_ends():
    assert cut_middle("abcdef", 6) == "abcdef"
    assert cut_middle("abcdefg", 4) == "ab\n[... 3 characters left out ...]\nfg"


def test_task_lists_keep_the_order_of_the_file_and_filter(tmp_path):
    folder = paths.find_data(make_data(tmp_path))
    tasks = load_tasks(folder)
    assert tasks.ids["test_normal"] == ("cc_2", "cc_1")
    assert tasks.splits() == {"train": 3, "test_normal": 2, "test": "test_normal"}
    assert load_tasks(folder, (1, 2)).ids["train"] == ("aa_1", "aa_2")
    with pytest.raises(ValueError, match="no task of difficulty"):
        load_tasks(folder, (3,))
    with pytest.raises(ValueError, match="difficulties must be some of 1, 2 and 3"):
        load_tasks(folder, (4,))


def test_a_dataset_that_names_a_missing_task_is_refused(tmp_path):
    folder = paths.find_data(make_data(tmp_path))
    (folder / "datasets" / "train.txt").write_text("aa_1\nzz_9:tag\n")
    with pytest.raises(FileNotFoundError, match="train.txt names the task zz_9"):
        load_tasks(folder)


def test_fingerprints_change_with_the_specifications(tmp_path):
    marks = []
    for name, text in (("a", ""), ("b", " more")):
        root = make_data(tmp_path / name)
        specs = tmp_path / name / "data" / "tasks" / "aa_1" / "specs.json"
        specs.write_text(specs.read_text().replace("Pin", f"Pin{text}"))
        env = FakeAppWorldEnv(data=root)
        marks.append((env.fingerprint("train"), env.fingerprint("test")))
    assert marks[0][0] != marks[1][0] and marks[0][1] == marks[1][1]


def test_goal_completion():
    scores = goal_completion({"appworld/dev/a_1": True, "appworld/dev/a_2": False, "b_1": True, "b_2": True})
    assert (scores.task, scores.scenario, scores.num_tasks, scores.num_scenarios) == (0.75, 0.5, 4, 2)
    with pytest.raises(ValueError, match="at least one"):
        goal_completion({})


def test_score_is_the_fraction_of_tests():
    assert Evaluation(success=False, num_passed=1, num_tests=4).score == 0.25
    assert Evaluation(success=False, num_passed=0, num_tests=0).score == 0.0


# ---------------------------------------------------------------------- namespace digest


def digest_of(**names):
    return namespace_digest(names, {})


def test_namespace_digest_tells_values_apart():
    values = [1, 2, True, 1.0, "1", b"1", None, [1], (1,), [1, [2]], {1: 2}, {2: 1}, {1}, {2}, 10**6000, float("nan")]
    digests = [digest_of(x=value) for value in values]
    assert len(set(digests)) == len(values)
    assert digest_of(x=[1, {"a": {3, 1}}]) == digest_of(x=[1, {"a": {1, 3}}])
    assert digest_of(x=1) != digest_of(y=1) and digest_of(x=1, _y=2) == digest_of(x=1)


def test_namespace_digest_reads_functions_and_classes():
    def make(text):
        names = {}
        exec(compile(text, "cell", "exec"), names)  # noqa: S102 - the test's own text
        return names["f"]

    one, two = "def f(a, b=1): return a + 1", "def f(a, b=1): return a + 2"
    assert digest_of(f=make(one)) == digest_of(f=make(one)) != digest_of(f=make(two))
    assert digest_of(f=make("class f:\n  x = 1")) != digest_of(f=make("class f:\n  x = 2"))


def test_namespace_digest_calls_no_code_of_values_and_ends():
    class Trap:
        def __repr__(self):
            raise AssertionError("called")

        __eq__ = __hash__ = __iter__ = __len__ = __repr__

    loop = []
    loop.append(loop)
    assert digest_of(x=Trap()) and digest_of(x=loop) and digest_of(x=list(range(10**6)))


def test_namespace_digest_leaves_out_what_was_there():
    shared = types.SimpleNamespace()
    assert namespace_digest({"apis": shared}, {"apis": shared}) == digest_of()
    assert namespace_digest({"apis": 3}, {"apis": shared}) != digest_of()


# ---------------------------------------------------------------------- the mini world


def people_with_accounts():
    people = make_people()
    emails = [person.me.email for person in people] + [friend.email for friend in all_friends()]
    for person in people:
        person.users.update({app: {email: number + 1 for number, email in enumerate(emails)} for app in APPS})
    return people


def test_mini_world_is_large_enough_and_every_split_has_every_difficulty():
    assert len(TEMPLATES) * len(make_people()) >= 40 and len({t.name for t in TEMPLATES}) == len(TEMPLATES)
    assert sum(mini_splits().values()) == 100 and AppWorldEnv.SPLITS == mini_splits()
    for split in ("train", "dev", "test"):
        assert {t.difficulty for t in TEMPLATES if t.split == split} == {1, 2, 3}
    used = {app for t in TEMPLATES for app in t.make(people_with_accounts()[0]).apps}
    assert used == set(APPS) and len(used) >= 5


@pytest.mark.parametrize("number", range(25))
def test_mini_tasks_are_sound(number):
    template = TEMPLATES[number]
    assert scenario_of(f"appworld/{template.split}/{scenario_id(number)}_4") == scenario_id(number)
    for person in people_with_accounts():
        task = template.make(person)
        for cell in task.cells():
            ast.parse(cell)
        assert (task.answer is None) is bool(task.checks), "a task asks for an answer or for changes"
        assert {check.model for check in task.checks} <= set(task.changes)
        assert {model.partition(".")[0] for model in task.changes} <= set(task.apps)
        assert task.answer not in (0, "", [])
        assert json.dumps([task.instruction, task.answer, task.changes])
        requirements = [check.requirement for check in task.checks]
        assert len(set(requirements)) == len(requirements)


def test_people_are_the_same_every_time():
    assert make_people() == make_people()
    assert len({f.phone_number for f in all_friends()} | {p.me.phone_number for p in make_people()}) == 12


# ---------------------------------------------------------------------- missing and wrong things


def test_a_missing_install_names_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(paths.PYTHON_VARIABLE, raising=False)
    with pytest.raises(DependencyNotInstalled, match=r"AppWorld is not installed .*agent-envs appworld install"):
        gym.make("agent_envs/AppWorld-v0")
    assert "agent-envs appworld install" in AppWorldEnv.unavailable()
    monkeypatch.setenv(paths.PYTHON_VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(DependencyNotInstalled, match="No interpreter at .*nowhere"):
        gym.make("agent_envs/AppWorld-v0")


def test_missing_data_names_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(paths.ROOT_VARIABLE, raising=False)
    for data, command in (("mini", "install"), ("official", "install --official"), (str(tmp_path), "--official")):
        with pytest.raises(DependencyNotInstalled, match=f"No AppWorld data at .*{command}"):
            paths.find_data(data)


def test_an_interpreter_without_appworld_says_so(tmp_path):
    env = AppWorldEnv(data=make_data(tmp_path), appworld_python=sys.executable)
    with pytest.raises(WorldError, match="(?s)No module named 'appworld'.*agent-envs appworld install"):
        env.reset(seed=0)
    env.close()


def test_an_install_is_complete_with_its_marker_only(tmp_path):
    install = Install(folder=tmp_path)
    install.python.parent.mkdir(parents=True)
    install.python.write_text("")
    assert not install.is_complete()
    install.marker.write_text(json.dumps({"appworld": "0.0.1"}))
    assert not install.is_complete()
    install.marker.write_text(json.dumps({"appworld": paths.APPWORLD_VERSION}))
    assert install.is_complete()


@pytest.mark.parametrize(
    ("kwargs", "error", "text"),
    [
        ({"timeout_s": 0}, ValueError, "timeout_s must be an int >= 1"),
        ({"memory_mb": True}, ValueError, "memory_mb must be an int >= 1"),
        ({"max_output_chars": 1.5}, ValueError, "max_output_chars must be an int >= 1"),
        ({"refuse_patterns": "x"}, TypeError, "refuse_patterns must be a list"),
        ({"refuse_patterns": ["("]}, ValueError, "no regular expression"),
        ({"urls": "http://x"}, TypeError, "urls must be a list"),
        ({"urls": ["x"]}, ValueError, "named like 'http://127.0.0.1:8000'"),
        ({"split": "validation"}, ValueError, "Unknown split 'validation'"),
    ],
)
def test_wrong_arguments_are_named(tmp_path, kwargs, error, text):
    with pytest.raises(error, match=text):
        FakeAppWorldEnv(data=make_data(tmp_path), **kwargs)


def test_a_server_that_is_not_there():
    client = AppWorldClient("http://127.0.0.1:9", timeout_s=1)
    with pytest.raises(WorldError, match="127.0.0.1:9/evaluate broke off"):
        client.evaluate()
    assert agent_envs.Status.ERROR_SERVICE == WorldError.status


def test_every_member_needs_a_url_of_its_own():
    first = RemoteWorld(["http://127.0.0.1:9"], 1)
    with pytest.raises(WorldError, match="All 1 AppWorld servers are in use"):
        RemoteWorld(["http://127.0.0.1:9"], 1)
    first.close()
    RemoteWorld(["http://127.0.0.1:9"], 1).close()
