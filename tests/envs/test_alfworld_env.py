"""The ALFWorld environment: commands, refusals, rewards, keys, snapshots. The engine has its own tests."""

import hashlib
import json
import random
import sys
import types
import warnings

import gymnasium as gym
import pytest

import agent_envs  # noqa: F401 - registers the ids
from agent_envs.check import CHECKS, Subject
from agent_envs.envs.alfworld import env as env_module
from agent_envs.envs.alfworld.commands import tidy_command
from agent_envs.envs.alfworld.engine import Engine, StepResult
from agent_envs.envs.alfworld.env import ALFWorldEnv
from agent_envs.envs.alfworld.gamefile import load_game
from agent_envs.envs.alfworld.generator import GameSpec, generate_games
from agent_envs.envs.alfworld.generator_tables import TASK_TYPES
from agent_envs.errors import GroupMismatchError, SnapshotError
from agent_envs.groups import GroupVectorEnv
from agent_envs.registration import EnvFactory

ID = "agent_envs/ALFWorld-v0"
# Digest of the whole oracle walk (texts, commands, rewards, keys) of the first small training game of each type.
TRANSCRIPTS = {
    "pick_and_place_simple": "605cf57f8ec247f4",
    "look_at_obj_in_light": "1ecd8eec363dfb50",
    "pick_clean_then_place_in_recep": "c07759b4b956af01",
    "pick_heat_then_place_in_recep": "519211e7feb00e9c",
    "pick_cool_then_place_in_recep": "dfbfc2620fbabdd7",
    "pick_two_obj_and_place": "ca29d0cf6220a976",
}


@pytest.fixture(autouse=True)
def own_settings(monkeypatch, tmp_path):
    """Generated games whatever the user has set, and nothing written into the home folder."""
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(env_module, "_warned_of_grammar", False)


def started(task_type=None, **kwargs):
    """Return a small env at the start of the first training game of a type, with its info."""
    env = ALFWorldEnv(**{"size": "small", **kwargs})
    index = 0
    while True:
        _, info = env.reset(options={"split": "train", "task_index": index})
        if task_type in (None, info["task_type"]):
            return env, info
        index += 1


def play(env, actions):
    """Return the last step's result."""
    for action in actions:
        result = env.step(action)
    return result


# ---------------------------------------------------------------------- an episode


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_oracle_walk_pays_once_and_is_recorded(task_type):
    env, info = started(task_type)
    assert info["task_type"] == task_type and info["grammar_version"] == "0.4" and not info["success"]
    record = [env._observe(), info["admissible_actions"], info["state_key"], info["task_id"], info["task"]]
    for action in env.example_actions():
        text, reward, terminated, truncated, info = env.step(action)
        record += [action, text, reward, terminated, info["admissible_actions"], info["state_key"]]
        assert info["action_is_valid"] and info["refusal"] == "" and not truncated
        assert (reward, info["score"], info["success"]) == ((10.0, 1.0, True) if terminated else (0.0, 0.0, False))
    assert terminated
    assert hashlib.sha256(json.dumps(record).encode()).hexdigest()[:16] == TRANSCRIPTS[task_type]


def test_first_text_names_receptacles_and_task():
    env, info = started()
    text = env._observe()
    assert text.startswith("-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room.")
    assert text.endswith(f"\n\nYour task is to: {info['task']}.")
    assert text == text.strip()


def test_episode_ends_after_max_turns_and_stays_ended():
    env, _ = started(max_turns=3)
    results = [env.step("look") for _ in range(4)]
    assert [(terminated, truncated) for _, _, terminated, truncated, _ in results] == [
        (False, False),
        (False, False),
        (False, True),
        (False, True),
    ]
    assert results[3][4]["turn"] == 3
    assert gym.spec(ID).kwargs["max_turns"] == 50


def test_success_reward_is_an_argument():
    env, _ = started(success_reward=1)
    assert play(env, env.example_actions())[1] == 1.0


def test_c11_success_comes_from_the_engine_not_from_text(monkeypatch):
    env, _ = started()
    told = StepResult(feedback="You won! Your task is complete. success", score=1, done=True, won=False, admitted=True)
    monkeypatch.setattr(Engine, "step", lambda self, command: told)
    text, reward, terminated, _, info = env.step("look")
    assert text.startswith("You won!") and (reward, terminated, info["success"], info["score"]) == (
        0.0,
        False,
        False,
        0.0,
    )


def test_game_won_at_the_start_says_so():
    env, _ = started()
    won = Engine(env._engine.game)
    play_all = [won.step(command) for command in won.oracle()]
    assert play_all[-1].won
    env._engine.restore(won.snapshot())
    _, reward, terminated, _, info = env.step("look")
    assert terminated and info["success"] and reward == 10.0 and env.example_actions() == []


# ---------------------------------------------------------------------- commands


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("Go To  Fridge\t1.", "go to fridge 1"),
        (' "look" ', "look"),
        ("`take mug 1 from desk 1`.", "take mug 1 from desk 1"),
        ("\n“inventory.”\n", "inventory"),
        ("go to desk 1 .", "go to desk 1 "),
        ("", ""),
        ("...", ".."),
    ],
)
def test_commands_are_tidied(text, command):
    assert tidy_command(text) == command.strip()


@pytest.mark.parametrize(
    ("action", "code"),
    [
        ("", "empty"),
        ('  "." ', "empty"),
        ("dance", "not_admissible"),
        ("open moon 1", "not_admissible"),
        ("go to", "not_admissible"),
        ("go to cabinet 1; look", "not_admissible"),
        ("\0", "not_admissible"),
        ("look" * 5000, "not_admissible"),
    ],
)
def test_refused_commands_say_why_use_a_turn_and_keep_the_key(action, code):
    env, before = started()
    text, reward, terminated, _, info = env.step(action)
    assert text == "Nothing happens." and reward == 0.0 and not terminated
    assert (info["action_is_valid"], info["refusal"], info["turn"]) == (False, code, 1)
    assert info["state_key"] == before["state_key"]


def test_admissible_actions_leave_out_help_but_help_works():
    env, info = started()
    assert "help" not in info["admissible_actions"] and {"look", "inventory"} < set(info["admissible_actions"])
    text, _, _, _, info = env.step("help")
    assert text.startswith("Available commands:") and info["action_is_valid"]
    info["admissible_actions"].clear()
    assert env.step("look")[4]["admissible_actions"], "the list is the caller's own"


def test_every_admissible_action_is_accepted():
    env, info = started()
    play(env, env.example_actions()[:3])
    saved = env.snapshot()
    for action in env._extra_info()["admissible_actions"]:
        env.restore(saved)
        assert env.step(action)[4]["action_is_valid"], action


# ---------------------------------------------------------------------- the two grammars (F1)


def test_f1_commands_of_the_other_release_are_refused_with_a_warning_once():
    env, _ = started("pick_and_place_simple")
    *walk, last = env.example_actions()
    play(env, walk)
    assert last.startswith("move ")
    old = last.replace("move ", "put ").replace(" to ", " in/on ")
    with pytest.warns(UserWarning, match="put_alias=True, or grammar='0.3'"):
        text, _, _, _, info = env.step(old)
    assert text == "Nothing happens." and info["refusal"] == "other_grammar" and not info["action_is_valid"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert env.step(old)[4]["refusal"] == "other_grammar"


@pytest.mark.parametrize("form", ["put {} in/on {}", "put {} in {}", "Put {} on {}.", "move {} to {}"])
@pytest.mark.parametrize("grammar", ["0.4", "0.3"])
def test_f1_alias_accepts_all_forms(grammar, form):
    env, _ = started("pick_and_place_simple", put_alias=True, grammar=grammar)
    *walk, last = env.example_actions()
    play(env, walk)
    words = last.split()
    _, _, terminated, _, info = env.step(form.format(" ".join(words[1:3]), " ".join(words[-2:])))
    assert terminated and info["action_is_valid"] and info["grammar_version"] == grammar


def test_f1_grammar_is_in_info_in_the_texts_and_in_the_task_set():
    old, info = started("pick_and_place_simple", grammar="0.3")
    new, other = started("pick_and_place_simple")
    assert info["grammar_version"] == "0.3" and info["state_key"] == other["state_key"]
    assert old.fingerprint() != new.fingerprint()
    walk = old.example_actions()
    assert walk[-1].startswith("put ") and " in/on " in walk[-1]
    assert old.step(walk[0])[0].startswith("You arrive at loc ")
    assert new.step(walk[0])[0].startswith(f"You arrive at {walk[0].removeprefix('go to ')}.")
    assert not old.step("help")[4]["action_is_valid"]
    with pytest.warns(UserWarning, match="grammar='0.4'"):
        old.step("move mug 1 to desk 1")


# ---------------------------------------------------------------------- keys


def test_looking_examining_and_refused_commands_keep_the_key():
    env, info = started("pick_and_place_simple")
    play(env, env.example_actions()[:2])
    key = env.state_key()
    for action in (
        *(a for a in env._extra_info()["admissible_actions"] if a.startswith("examine")),
        "look",
        "inventory",
    ):
        assert env.step(action)[4]["state_key"] == key


def test_going_back_and_putting_back_give_the_key_back_and_opening_does_not():
    env, _ = started("pick_and_place_simple")
    places = [action for action in env._extra_info()["admissible_actions"] if action.startswith("go to")]
    env.step(places[0])
    there = env.state_key()
    play(env, [places[1], places[0]])
    assert env.state_key() == there

    env, _ = started("pick_and_place_simple")
    walk = env.example_actions()
    take = next(number for number, action in enumerate(walk) if action.startswith("take"))
    play(env, walk[:take])
    before = env.state_key()
    item, holder = walk[take].removeprefix("take ").split(" from ")
    play(env, [walk[take]])
    assert env.state_key() != before
    play(env, [f"move {item} to {holder}"])
    assert env.state_key() == before

    env, _ = started("pick_heat_then_place_in_recep")
    play(env, ["go to microwave 1"])
    before = env.state_key()
    play(env, ["open microwave 1"])
    assert env.state_key() != before
    play(env, ["close microwave 1"])
    assert env.state_key() == before


def test_observation_key_groups_by_the_text_as_the_papers_do():
    env, start = started(state_key="observation")
    first = env.step("dance")[4]["state_key"]
    place = env._extra_info()["admissible_actions"]
    arrive = env.step(next(action for action in place if action.startswith("go to")))[4]["state_key"]
    assert env.step("dance")[4]["state_key"] == first, "one text of two states: one key"
    assert len({start["state_key"], first, arrive, env.step("look")[4]["state_key"]}) == 4


def test_equal_keys_mean_equal_futures_on_random_walks():
    env, _ = started("pick_two_obj_and_place", size="full")
    futures, rng = {}, random.Random(1)
    for _ in range(6):
        env.reset(options={"task_index": 0})
        info = env._extra_info()
        for _ in range(40):
            key = env.state_key()
            assert futures.setdefault(key, info["admissible_actions"]) == info["admissible_actions"]
            info = env.step(rng.choice(info["admissible_actions"]))[4]
    assert len(futures) > 50


# ---------------------------------------------------------------------- tasks and groups


def test_task_ids_hold_split_size_and_seed():
    for size in ("full", "small"):
        _, info = ALFWorldEnv(size=size).reset(options={"split": "test", "task_index": 7})
        assert info["task_id"].startswith(f"alfworld/valid_unseen/{info['task_type']}-")
        assert info["task_id"].endswith(f"/trial_{size}_020007")
    assert ALFWorldEnv(size="small").fingerprint() != ALFWorldEnv().fingerprint()


def test_a3_task_is_the_same_for_every_seed_and_instance():
    infos = [ALFWorldEnv().reset(seed=seed, options={"task_index": 17})[1] for seed in (0, 7)]
    assert infos[0] == infos[1]
    assert ALFWorldEnv().fingerprint("test") == "bd47ab33af53b954"


@pytest.mark.parametrize("executor", ["serial", "threads", "processes"])
def test_a5_members_of_a_group_start_equal_wherever_they_run(executor):
    vector = gym.make_vec(ID, num_envs=8, group_size=4, size="small", executor=executor, num_workers=2)
    try:
        _, info = vector.reset(seed=0, options={"task_index": [3, 4]})
        assert [len(set(info["state_key"][rows])) for rows in (slice(0, 4), slice(4, 8))] == [1, 1]
        _, rewards, _, _, after = vector.step(["look", "dance", "inventory", "help"] * 2)
        assert (after["state_key"] == info["state_key"]).all() and rewards.sum() == 0
    finally:
        vector.close()


class OtherStartEnv(ALFWorldEnv):
    """An installation in which every second member starts elsewhere."""

    made = 0

    def _reset_task(self, split, index):
        super()._reset_task(split, index)
        type(self).made += 1
        if self.made % 2:
            self._engine.step(self._engine.oracle()[0])


def test_a5_members_that_start_differently_are_refused_and_the_task_is_named():
    vector = GroupVectorEnv(lambda: OtherStartEnv(size="small"), num_envs=4, group_size=4)
    with pytest.raises(GroupMismatchError, match="otherstart/train/.*trial_small_000002"):
        vector.reset(options={"task_index": [2]})
    vector.close()


def test_threads_play_as_one_thread_does():
    def trajectories(executor):
        vector = gym.make_vec(ID, num_envs=8, group_size=2, size="small", executor=executor, num_workers=4)
        _, info = vector.reset(seed=3)
        rng, seen = random.Random(0), []
        for _ in range(15):
            actions = [rng.choice(options) for options in info["admissible_actions"]]
            texts, rewards, _, _, info = vector.step(actions)
            seen.append((texts, rewards.tolist(), info["state_key"].tolist()))
        vector.close()
        return seen

    assert trajectories("threads") == trajectories("serial")


# ---------------------------------------------------------------------- snapshots


def test_snapshot_in_the_middle_goes_on_in_another_instance():
    env, _ = started("pick_clean_then_place_in_recep")
    walk = env.example_actions()
    play(env, [walk[0], "dance", *walk[1:3]])
    saved = env.snapshot()
    expected = [env.step(action) for action in walk[3:]]
    assert expected[-1][2]
    other = ALFWorldEnv(size="small")
    text, info = other.restore(saved)
    assert info["turn"] == 4 and text == other._observe()
    assert [other.step(action) for action in walk[3:]] == expected


def test_snapshot_keeps_what_look_says_of_things_moved_at_a_shared_place():
    env = ALFWorldEnv()
    for index in range(40):
        env.reset(options={"task_index": index})
        engine = env._engine
        game = engine.game
        for place, (*_,) in ((p, r) for p, r in game.receptacles_at.items() if len(r) > 1):
            first, second = game.receptacles_at[place][:2]
            items = [item for item in game.contents.get(first, ()) if item in game.accepts[second]]
            if not items or items[0] not in game.pickupable:
                continue
            a, b, item = game.names[first], game.names[second], game.names[items[0]]
            play(env, [f"go to {a}", f"open {a}", f"take {item} from {a}", f"open {b}", f"move {item} to {b}"])
            saved, text = env.snapshot(), env.step("look")[0]
            assert f"you see a {item}" in text
            assert ALFWorldEnv().restore(saved)
            env.restore(saved)
            assert env.step("look")[0] == text
            return
    raise AssertionError("no game with an object to move within a shared place")


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data["state"].update(text=5),
        lambda data: data["state"]["engine"].update(game="other"),
        lambda data: data["state"]["engine"]["gained"].append(["holds", "agent1"]),
        lambda data: data["state"].pop("engine"),
        lambda data: data.update(index=10**6),
        lambda data: data.update(fingerprint="0" * 16),
    ],
)
def test_damaged_snapshots_are_refused_and_the_episode_goes_on(change):
    env, _ = started()
    env.step("look")
    broken = json.loads(env.snapshot())
    change(broken)
    key, text = env.state_key(), env._observe()
    with pytest.raises(SnapshotError):
        env.restore(json.dumps(broken).encode())
    assert (env.state_key(), env._observe()) == (key, text)


def test_snapshot_of_another_size_is_refused():
    env, _ = started()
    with pytest.raises(SnapshotError, match="other tasks"):
        ALFWorldEnv(size="full").restore(env.snapshot())


# ---------------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"size": "smal"}, "Unknown size 'smal'. Did you mean 'small'"),
        ({"grammar": "0.2"}, "Unknown grammar '0.2'"),
        ({"backend": "nativ"}, "Did you mean 'native'"),
        ({"goal_text": "humans"}, "Did you mean 'human'"),
        ({"split": "dev"}, r"Unknown split 'dev'.*train, valid_seen, valid_unseen \(test is valid_unseen\)"),
        ({"max_turns": 0}, "max_turns must be"),
        ({"render_mode": "human"}, "Unknown render_mode"),
    ],
)
def test_bad_arguments_name_value_and_choices(kwargs, text):
    with pytest.raises(ValueError, match=text):
        ALFWorldEnv(**kwargs)


def test_people_described_no_generated_game():
    with pytest.raises(ValueError, match="goal_text='human' needs official games"):
        ALFWorldEnv(goal_text="human").reset(seed=0)


def test_peoples_words_are_fixed_per_task_and_change_no_key(tmp_path):
    (path,) = generate_games(tmp_path / "train", [GameSpec(seed=1, task_type=TASK_TYPES[0], size="small")])
    words = [{"task_desc": text} for text in ("Tidy up.", " Bring it\n there. ", 'Move {it} "now".')]
    notes = json.loads((path.parent / "traj_data.json").read_bytes())
    (path.parent / "traj_data.json").write_text(json.dumps({**notes, "turk_annotations": {"anns": words}}))
    plain = ALFWorldEnv(data_dir=str(tmp_path)).reset(options={"task_index": 0})[1]
    seen = set()
    for _ in range(3):
        text, info = ALFWorldEnv(data_dir=str(tmp_path), goal_text="human").reset(options={"task_index": 0})
        assert text.endswith(f"Your task is to: {info['task']}.") and info["state_key"] == plain["state_key"]
        seen.add(info["task"])
    assert len(seen) == 1 and seen < {"Tidy up", "Bring it there", 'Move {it} "now"'}
    (path.parent / "traj_data.json").unlink()
    with pytest.raises(ValueError, match="traj_data.json: no task descriptions"):
        ALFWorldEnv(data_dir=str(tmp_path), goal_text="human").reset(options={"task_index": 0})


def test_render_gives_the_text():
    env, _ = started(render_mode="ansi")
    assert env.render() == env._observe()
    assert started()[0].render() is None


def test_questions_before_reset_are_answered_with_what_to_do():
    env = ALFWorldEnv()
    for question in (env.canonical_state, env.example_actions, env.render, lambda: env.step("look")):
        with pytest.raises(gym.error.ResetNeeded, match="reset"):
            question()


def test_textworld_backend_is_imported_when_asked_for_and_gets_the_file(monkeypatch, tmp_path):
    made, closed = [], []

    class TextworldEngine(Engine):
        __slots__ = ()

        def __init__(self, source, *, grammar, put_alias):
            made.append((source, grammar, put_alias))
            super().__init__(load_game(source, grammar), put_alias=put_alias)

        def close(self):
            closed.append(self)

    module = types.ModuleType("agent_envs.envs.alfworld.textworld_backend")
    module.TextworldEngine = TextworldEngine
    monkeypatch.setitem(sys.modules, module.__name__, module)
    (path,) = generate_games(tmp_path / "train", [GameSpec(seed=1, task_type=TASK_TYPES[0], size="small")])
    env = ALFWorldEnv(backend="textworld", data_dir=str(tmp_path), put_alias=True)
    assert not made
    keys = []
    for _ in range(2):
        _, info = env.reset(options={"task_index": 0})
        keys.append(info["state_key"])
    assert made == [(path, "0.4", True)] * 2 and len(closed) == 1
    assert play(env, env.example_actions())[2]
    env.close()
    assert len(closed) == 2
    native = ALFWorldEnv(data_dir=str(tmp_path)).reset(options={"task_index": 0})[1]
    assert keys == [native["state_key"]] * 2


@pytest.mark.parametrize("name", ["state keys", "example actions win", "snapshots", "refused actions", "groups"])
@pytest.mark.parametrize("kwargs", [{"size": "small"}, {"size": "small", "grammar": "0.3"}], ids=str)
def test_conformance_of_other_arguments(kwargs, name):
    CHECKS[name](Subject(env_id=ID, kwargs=kwargs))


def test_factory_makes_the_env_in_workers():
    factory = EnvFactory(env_class="agent_envs.envs.alfworld.env:ALFWorldEnv", kwargs={"size": "small", "max_turns": 5})
    assert factory().reset(seed=1)[1] == ALFWorldEnv(size="small", max_turns=9).reset(seed=1)[1]
