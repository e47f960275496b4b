"""Small ALFWorld rooms and the recorded games, for the tests of the native engine."""

from __future__ import annotations

import gzip
import json
import os
import random
from pathlib import Path
from typing import Any

from agent_envs.envs.alfworld.engine import Engine
from agent_envs.envs.alfworld.gamefile import Game, build_game

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "data" / "alfworld"
REAL = Path(os.environ.get("AGENT_ENVS_ALFWORLD_DATA", ROOT.parent / "shared" / "data" / "alfworld_valid_unseen_12"))
REAL_FILES = sorted(REAL.glob("**/game.tw-pddl"))

PLACE_GOAL = "(exists (?r - receptacle) (exists (?o - object) (and (inReceptacle ?o ?r) {facts})))"
MUG_ON_SHELF = PLACE_GOAL.format(facts="(objectType ?o MugType) (receptacleType ?r ShelfType)")
KITCHEN = """
(receptacleType Desk_bar_1 DeskType) (receptacleAtLocation Desk_bar_1 loc_bar_1)
(receptacleType Shelf_bar_1 ShelfType) (receptacleAtLocation Shelf_bar_1 loc_bar_2)
(receptacleType Drawer_bar_1 DrawerType) (receptacleAtLocation Drawer_bar_1 loc_bar_3) (openable Drawer_bar_1)
(receptacleType Fridge_bar_1 FridgeType) (receptacleAtLocation Fridge_bar_1 loc_bar_4) (openable Fridge_bar_1)
(objectType Mug_bar_1 MugType) (inReceptacle Mug_bar_1 Desk_bar_1) (objectAtLocation Mug_bar_1 loc_bar_1)
(pickupable Mug_bar_1) (coolable Mug_bar_1)
(objectType Book_bar_1 BookType) (inReceptacle Book_bar_1 Desk_bar_1) (objectAtLocation Book_bar_1 loc_bar_1)
(pickupable Book_bar_1)
(canContain DeskType MugType) (canContain ShelfType MugType) (canContain DrawerType MugType)
(canContain FridgeType MugType)
(atLocation agent1 loc_bar_0)
"""


def make_problem(goal: str = MUG_ON_SHELF, init: str = KITCHEN) -> str:
    """A small problem; every word of `init` is declared."""
    words = sorted(set(init.replace("(", " ").replace(")", " ").split()))
    objects = "\n".join(f"{word} - object" for word in words)
    return f"(define (problem small) (:domain alfred)\n(:objects {objects})\n(:init {init})\n(:goal (and {goal})))"


def golden_games() -> list[dict[str, Any]]:
    """All recorded games."""
    games = []
    for name in ("transcripts", "edge_cases"):
        with gzip.open(GOLDEN / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            games += [json.loads(line) for line in lines]
    return games


GOLDEN_GAMES = golden_games()
GOLDEN_NAMES = [game.get("name") or f"seed_{game['seed']}" for game in GOLDEN_GAMES]
EPISODES = GOLDEN_GAMES[:24]  # The others are odd rooms.


def golden_game(record: dict[str, Any]) -> Game:
    return build_game(record["pddl_problem"], record["task"])


def random_walk(engine: Engine, num_steps: int, rng: random.Random) -> list[str]:
    """Plays possible commands, verb first, and returns them."""
    commands = []
    for _ in range(num_steps):
        possible = engine.admissible()
        verb = rng.choice(sorted({command.split()[0] for command in possible}))
        commands.append(rng.choice([command for command in possible if command.split()[0] == verb]))
        engine.step(commands[-1])
    return commands


def key(engine: Engine) -> str:
    return json.dumps(engine.changes())
