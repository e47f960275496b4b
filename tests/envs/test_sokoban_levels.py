"""Level files and frames of Sokoban."""

import os
from pathlib import Path

import numpy as np
import pytest

from agent_envs.envs.sokoban import SokobanEnv
from agent_envs.envs.sokoban.generate import LevelParams, generate_level
from agent_envs.envs.sokoban.levels import format_level, load_level_sets, parse_levels, with_aliases
from agent_envs.envs.sokoban.render import SYMBOLS, frame, grid_text, tile_bank

BOXOBAN = Path(
    os.environ.get("AGENT_ENVS_BOXOBAN_DATA", Path(__file__).parents[2].parent / "shared" / "data" / "boxoban_250")
)

EASY = "#####\n#@$.#\n#   #\n#####\n"
OTHER = "#####\n#   #\n#+$*#\n#####\n"


def test_text_round_trip():
    levels = parse_levels(f"; 0\n{EASY}\n; 1\r\n{OTHER}", "here")
    assert [format_level(level) + "\n" for level in levels] == [EASY, OTHER]
    assert (levels[0].height, levels[0].width, levels[1].num_boxes) == (4, 5, 2)
    generated = [generate_level(LevelParams(height=6, width=7, num_boxes=2, search_depth=30), s) for s in range(5)]
    text = "\n\n".join(f"; {i}\n{format_level(level)}" for i, level in enumerate(generated))
    assert parse_levels(text, "here") == tuple(generated)


@pytest.mark.parametrize(
    "rows, line, text",
    [
        ("#####\n#@$.#\n####\n", 9, "the row has 4 columns, the level's first row has 5"),
        ("#####\n#@$.#\n#  @#\n#####\n", 7, "the level has 2 players"),
        ("#####\n# $.#\n#####\n", 7, "the level has 0 players"),
        ("#####\n#@$ #\n#####\n", 7, "the level has 1 boxes off target for 0 free targets"),
        ("#####\n#@*.#\n#####\n", 7, "the level has 0 boxes off target for 1 free targets"),
        ("#####\n#@* #\n#####\n", 7, "the level has no box off target"),
        ("#####\n#@$.#\n#a#é#\n", 9, "unknown symbol 'a'"),
        ("#####\n#@$.√\n#####\n", 8, "unknown symbol '√'"),
    ],
)
def test_faulty_levels_name_file_and_line(tmp_path, rows, line, text):
    (tmp_path / "faulty.txt").write_text(f"; 0\n{EASY}; 1\n{rows}", encoding="utf-8")
    with pytest.raises(ValueError, match=rf"faulty\.txt, line {line}: {text}"):
        SokobanEnv(level_dir=str(tmp_path))


def test_splits_come_from_folders_and_files(tmp_path):
    for name, count in (("train/000.txt", 2), ("train/001.txt", 3), ("valid/000.txt", 1), ("extra.txt", 1)):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"; {i}\n{EASY if i % 2 else OTHER}\n" for i in range(count)))
    (tmp_path / "readme.md").write_text("not a level")
    env = SokobanEnv(level_dir=str(tmp_path), obs_mode="image")
    assert env.splits() == {"extra": 1, "train": 5, "valid": 1, "test": "valid"}
    ids = [env.reset(options={"task_index": i})[1]["task_id"] for i in range(5)]
    assert ids == [f"sokoban/train/{name}" for name in ("000-0", "000-1", "001-0", "001-1", "001-2")]
    _, info = env.reset(options={"split": "test", "task_index": 0})
    assert (info["task_id"], info["score"], info["boxes_on_target"]) == ("sokoban/valid/000-0", 0.5, 1)
    assert env.fingerprint("train") != env.fingerprint("valid")
    with pytest.raises(ValueError, match=r"task_index must be in \[0, 5\)"):
        env.reset(options={"task_index": 5})


def test_fingerprint_follows_the_content(tmp_path):
    prints = []
    for name, text in (("a", EASY), ("b", EASY), ("c", OTHER)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "levels.txt").write_text(text)
        prints.append(SokobanEnv(level_dir=str(tmp_path / name), split="levels").fingerprint())
    assert prints[0] == prints[1] != prints[2]


def test_aliases_of_folders_without_train_or_test():
    assert with_aliases({"000": 1, "001": 1})["train"] == "000"
    assert with_aliases({"000": 1, "001": 1})["test"] == "001"
    assert with_aliases({"medium_valid_50": 1, "x_train": 1})["test"] == "medium_valid_50"
    assert with_aliases({"train": 1, "valid": 1, "test": 1}) == {"train": 1, "valid": 1, "test": 1}


def test_level_dir_errors(tmp_path):
    with pytest.raises(ValueError, match="is not a folder"):
        SokobanEnv(level_dir=str(tmp_path / "none"))
    with pytest.raises(ValueError, match="holds no levels"):
        SokobanEnv(level_dir=str(tmp_path))
    (tmp_path / "a.txt").write_text(EASY)
    with pytest.raises(ValueError, match="leave out dim_room"):
        SokobanEnv(level_dir=str(tmp_path), num_boxes=2)
    with pytest.raises(ValueError, match="Unknown split 'dev'"):
        SokobanEnv(level_dir=str(tmp_path), split="dev")


def test_images_need_one_size_and_text_does_not(tmp_path):
    (tmp_path / "a.txt").write_text(f"{EASY}\n######\n#@ $.#\n######\n")
    with pytest.raises(ValueError, match=r"needs levels of one size.*\(3, 6\), \(4, 5\)"):
        SokobanEnv(level_dir=str(tmp_path), obs_mode="image")
    env = SokobanEnv(level_dir=str(tmp_path), render_mode="rgb_array")
    for index, shape in enumerate([(64, 80, 3), (48, 96, 3)]):
        observation, _ = env.reset(options={"task_index": index})
        assert observation in env.observation_space
        assert env.render().shape == shape


@pytest.mark.skipif(not BOXOBAN.is_dir(), reason="no Boxoban levels (AGENT_ENVS_BOXOBAN_DATA)")
def test_boxoban_levels_load_and_play():
    sets = load_level_sets(str(BOXOBAN))
    assert {name: len(levels.levels) for name, levels in sets.items()} == {
        "medium_valid_50": 50,
        "unfiltered_train_200": 200,
    }
    assert all((level.height, level.width, level.num_boxes) == (10, 10, 4) for s in sets.values() for level in s.levels)
    env = SokobanEnv(level_dir=str(BOXOBAN), split="test", max_turns=200)
    _, info = env.reset(options={"task_index": 4})
    assert info["task_id"] == "sokoban/medium_valid_50/medium_valid_50-4"
    actions = env.example_actions()
    assert actions
    for action in actions:
        _, reward, terminated, _, info = env.step(action)
    assert terminated and info["success"] and reward == pytest.approx(10.9)


# ------------------------------------------------------------------ frames

ALL_CODES = bytes((0, 1, 2, 3, 4, 5, 6, 1, 0, 2, 4, 3))


@pytest.mark.parametrize("tile", [4, 7, 16, 64])
def test_frames_equal_a_tile_loop(tile):
    bank = tile_bank(tile)
    assert bank.shape == (7, tile, tile, 3) and bank.dtype == np.uint8
    for width in (1, 3, 4, 12):
        image = frame(ALL_CODES, width, tile)
        assert image.shape == (len(ALL_CODES) // width * tile, width * tile, 3) and image.dtype == np.uint8
        for cell, code in enumerate(ALL_CODES):
            row, column = cell // width * tile, cell % width * tile
            assert np.array_equal(image[row : row + tile, column : column + tile], bank[code])


@pytest.mark.parametrize("tile", [4, 8, 16, 64])
def test_tiles_are_distinct(tile):
    bank = tile_bank(tile).astype(int)
    for first in range(7):
        for second in range(first):
            assert np.abs(bank[first] - bank[second]).sum(-1).max() > 60, (first, second)


def test_frames_are_fresh_and_the_cache_does_not_leak_edits():
    first = frame(ALL_CODES, 4, 16)
    kept = first.copy()
    first[:] = 0
    second = frame(ALL_CODES, 4, 16)
    assert np.array_equal(second, kept) and not np.shares_memory(first, second)


def test_grid_text():
    assert grid_text(ALL_CODES[:6], 3, "spaced") == " # \t _ \t O \t\n √ \t X \t P \t"
    assert grid_text(ALL_CODES, 4, "compact") == "#_O√\nXPS_\n#OX√"
    assert len(set(SYMBOLS)) == 7
