"""Recorded episodes: gym-cards' own behaviour, that of the agent projects' copies, and our own transcripts.

The records hold numbers for actions; ``original`` is compared with ``rules="official"``, ``noop_rules`` with
``rules="agent"`` and float arithmetic. There an invalid action (-1) uses no turn, in ours it does, so ``max_turns`` is
raised by their number.
"""

import importlib.util
import json
from pathlib import Path

import PIL
import pytest

from agent_envs.envs.cards import BlackjackEnv, EZPointsEnv, NumberLineEnv, Points24Env

_DATA = Path(__file__).parent.parent / "data" / "cards"
_CLASSES = {"ezpoints": EZPointsEnv, "points24": Points24Env, "numberline": NumberLineEnv, "blackjack": BlackjackEnv}
_NO_ACTION = "not a symbol"


def _read(name):
    return json.loads((_DATA / f"{name}.json").read_text(encoding="utf-8"))


_EPISODES = [episode for name in _CLASSES for episode in _read(name)["episodes"]]


def _make(episode, **options):
    game = episode["env"]
    if game == "numberline":
        deal = [episode["start"], episode["goal"]]
    elif game == "blackjack":
        deal = [suit + rank for _, rank, suit in episode["draws"]]
    else:
        deal = episode["cards"] or [f"H{ {1: 'A', 10: 'T'}.get(n, n) }" for n in episode["numbers"]]
    return _CLASSES[game](deal=deal, **options)


def _replay(env, steps):
    """Play the recorded actions and compare every recorded field."""
    _, info = env.reset(seed=0)
    for number, step in enumerate(steps):
        action = _NO_ACTION if step["action"] < 0 else env.vocabulary.symbols[step["action"]]
        key = info["state_key"]
        _, reward, terminated, truncated, info = env.step(action)
        where = f"step {number}: {step}"
        assert (reward, terminated, truncated) == (step["reward"], step["terminated"], step["truncated"]), where
        state = env.canonical_state()
        if "formula" in step:
            assert " ".join(state["formula"]) == step["formula"], where
        if "position" in step:
            assert state["pos"] == step["position"], where
        if "won" in step:
            assert info["success"] is step["won"], where
        if step["action"] < 0:
            assert not info["action_is_valid"] and info["state_key"] == key, where
    return info


@pytest.mark.parametrize("episode", _EPISODES, ids=lambda episode: episode["id"])
def test_official_rules_replay_the_original(episode):
    steps = episode["original"]["steps"]
    max_turns = {"max_turns": 300} if episode["env"] != "numberline" else {}
    info = _replay(_make(episode, rules="official", **max_turns), steps)
    if "final_dealer" in episode:
        assert info["dealer"] == [suit + rank for _, rank, suit in episode["final_dealer"]]


@pytest.mark.parametrize("episode", _EPISODES, ids=lambda episode: episode["id"])
def test_agent_rules_replay_the_copies(episode):
    steps = episode["noop_rules"]["steps"]
    invalid = sum(step["action"] < 0 for step in steps)
    options = {"max_turns": 10 + invalid} if episode["env"] == "numberline" else {"max_turns": 300}
    if "numbers" in episode:
        options["arithmetic"] = "float"
    _replay(_make(episode, rules="agent", **options), steps)


def test_records_are_complete():
    assert len(_EPISODES) == 100
    assert any(step["action"] < 0 for e in _EPISODES for step in e["noop_rules"]["steps"])
    assert any(" " * 3 in s.get("formula", "") for e in _EPISODES for s in e["original"]["steps"])


def test_exact_arithmetic_wins_where_the_original_fails():
    (episode,) = (e for e in _EPISODES if e.get("numbers") == [3, 3, 8, 8])
    env = _make(episode, rules="agent")
    env.reset(seed=0)
    for step in episode["original"]["steps"]:
        _, reward, terminated, _, info = env.step(env.vocabulary.symbols[step["action"]])
    assert episode["original"]["steps"][-1]["reward"] == -1
    assert (reward, terminated, info["success"]) == (10.0, True, True)


def _regenerate():
    spec = importlib.util.spec_from_file_location("cards_regenerate", _DATA / "regenerate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.record()


def test_own_transcripts():
    """Texts, keys, rewards and flags everywhere; frames with the Pillow version that drew them."""
    recorded, now = _read("own"), json.loads(json.dumps(_regenerate()))
    if recorded["pillow"] != PIL.__version__:
        for content in (recorded, now):
            content.pop("pillow")
            for transcript in content["transcripts"]:
                for step in transcript["steps"]:
                    step.pop("frame")
    assert now == recorded


def test_own_transcripts_hold_wins_and_refusals():
    for transcript in _read("own")["transcripts"]:
        infos = [step["info"] for step in transcript["steps"]]
        assert any(info.get("refusal") for info in infos)
        assert infos[-1]["success"] or transcript["env"] == "BlackjackEnv"
