"""Write own.json anew: ``python tests/data/cards/regenerate.py --yes``, only after an intended change of behaviour."""

import argparse
import hashlib
import json
from pathlib import Path

import PIL

from agent_envs.envs.cards import BlackjackEnv, EZPointsEnv, NumberLineEnv, Points24Env

WALKS = {
    EZPointsEnv: (3, ["nonsense", "+", "1", "walk"]),
    Points24Env: (3, ["(", ")", "12", "walk"]),
    NumberLineEnv: (1, ["up", "left", "walk"]),
    BlackjackEnv: (2, ["double", "hit", "stand"]),
}
"""Class to test task and actions; ``walk`` stands for the oracle's walk, in a new episode of the same task."""


def transcript(env_class: type) -> dict:
    """Play the walk and return every result, with a digest in place of the frame."""
    index, actions = WALKS[env_class]
    env, text = env_class(obs_mode="image_text"), env_class(obs_mode="text")
    options = {"split": "test", "task_index": index}

    def reset() -> dict:
        text.reset(options=options)
        observation, info = env.reset(options=options)
        return _record(observation, info, text)

    steps = [reset()]
    if actions[-1] == "walk":
        actions = [*actions[:-1], None, *text.example_actions()]
    for action in actions:
        if action is None:
            steps.append({"reset": True, **reset()})
            continue
        text.step(action)
        observation, reward, terminated, truncated, info = env.step(action)
        flags = {"action": action, "reward": reward, "terminated": terminated, "truncated": truncated}
        steps.append({**flags, **_record(observation, info, text)})
    return {"env": env_class.__name__, "options": options, "steps": steps}


def _record(observation: dict, info: dict, text_env: object) -> dict:
    frame = hashlib.blake2b(observation["image"].tobytes(), digest_size=16).hexdigest()
    return {"frame": frame, "text": observation["text"], "words": text_env.unwrapped._observe(), "info": info}


def record() -> dict:
    """Return the whole file's content."""
    return {"format": 1, "pillow": PIL.__version__, "transcripts": [transcript(env_class) for env_class in WALKS]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--yes", action="store_true", required=True, help="overwrite own.json")
    parser.parse_args()
    path = Path(__file__).with_name("own.json")
    path.write_text(json.dumps(record(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
