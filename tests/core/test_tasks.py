"""Derived seeds, splits, panels on disk, atomic writing."""

import json

import numpy as np
import pytest
from toy_envs import ToyShopEnv

from agent_envs import Panel, derive_seed
from agent_envs.errors import PanelMismatchError
from agent_envs.tasks import resolve_split, write_atomically

ID = "toys/Shop-v0"


def test_derived_seeds_are_fixed_numbers():
    assert derive_seed(0, "group", 0) == 5115325795543186215  # printf '[0, "group", 0]' | b2sum -l 64, halved
    assert all(0 <= derive_seed(seed, "group", group) < 1 << 63 for seed in range(20) for group in range(20))


def test_derived_seeds_depend_on_every_part():
    seeds = {
        derive_seed(seed, name, number) for seed in range(30) for name in ("group", "panel") for number in range(30)
    }
    assert len(seeds) == 30 * 2 * 30
    assert derive_seed(1, "a", "b") != derive_seed(1, "ab") != derive_seed(1, "a", 1) != derive_seed(1, "a", "1")


def test_aliases():
    splits = {"train": 3, "valid_unseen": 2, "test": "valid_unseen"}
    assert resolve_split(splits, "test", "X") == resolve_split(splits, "valid_unseen", "X") == "valid_unseen"
    with pytest.raises(
        ValueError, match=r"Unknown split 7 for X. Splits: train, valid_unseen \(test is valid_unseen\)"
    ):
        resolve_split(splits, 7, "X")


def test_panel_of_a_whole_split_in_padded_batches():
    panel = Panel.all(ToyShopEnv(), env_id=ID, split="train")
    assert len(panel) == 5 and panel.indices == (0, 1, 2, 3, 4)
    assert [batch.tolist() for batch in panel.batches(4)] == [[0, 1, 2, 3], [4, -1, -1, -1]]
    assert [batch.tolist() for batch in panel.batches(5)] == [[0, 1, 2, 3, 4]]
    with pytest.raises(ValueError, match="num_groups must be >= 1, got 0"):
        list(panel.batches(0))


def test_sampled_panel_is_reproducible_without_repeats():
    one, two = (Panel.sample(ToyShopEnv(), env_id=ID, split="train", size=3, seed=4) for _ in range(2))
    assert one == two and len(set(one.indices)) == 3 and list(one.indices) == sorted(one.indices)
    others = {Panel.sample(ToyShopEnv(), env_id=ID, split="train", size=3, seed=s).indices for s in range(20)}
    assert len(others) > 3
    for size in (0, 6):
        with pytest.raises(ValueError, match=rf"Panel size must be in \[1, 5\] for {ID} split 'train', got {size}"):
            Panel.sample(ToyShopEnv(), env_id=ID, split="train", size=size)


def test_panel_survives_the_disk(tmp_path):
    panel = Panel.sample(ToyShopEnv(), env_id=ID, split="train", size=2, env_kwargs={"max_turns": 3})
    path = tmp_path / "deep" / "panel.json"
    panel.save(path)
    assert Panel.load(path) == panel
    assert [entry.name for entry in path.parent.iterdir()] == ["panel.json"]


@pytest.mark.parametrize(
    ("indices", "error", "text"),
    [
        ((1, 2, 1), ValueError, "got index 1 twice"),
        ((3, -1), ValueError, "must be >= 0, got -1"),
        ((), ValueError, "at least one task"),
        ((1.0,), TypeError, "must be ints, got 1.0"),
        ((True,), TypeError, "got True"),
        ("12", TypeError, "got the str '12'"),
    ],
)
def test_panel_of_wrong_indices(tmp_path, indices, error, text):
    with pytest.raises(error, match=text):
        Panel(env_id=ID, env_kwargs={}, split="train", indices=indices, fingerprint="")
    path = tmp_path / "panel.json"
    whole = {"format": 1, "env_id": ID, "env_kwargs": {}, "split": "train", "indices": indices, "fingerprint": ""}
    path.write_text(json.dumps(whole))
    with pytest.raises(ValueError, match=f"is not a panel file .*{text}"):
        Panel.load(path)


def test_panel_takes_any_ints(tmp_path):
    panel = Panel(env_id=ID, env_kwargs={}, split="train", indices=np.array([2, 0]), fingerprint="")
    assert panel.indices == (2, 0)
    panel.save(tmp_path / "panel.json")
    assert Panel.load(tmp_path / "panel.json") == panel


def test_written_files_have_the_permissions_of_ordinary_ones(tmp_path):
    (tmp_path / "ordinary").write_text("")
    write_atomically(tmp_path / "file", "")
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "ordinary").stat().st_mode


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2}', '{"format": 1, "indices": 3}', '{"format": 1}'])
def test_file_that_is_no_panel(tmp_path, text):
    path = tmp_path / "panel.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="is not a panel file"):
        Panel.load(path)


def test_panel_of_other_data_is_refused(tmp_path):
    path = tmp_path / "panel.json"
    Panel.all(ToyShopEnv(), env_id=ID, split="train").save(path)
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, "fingerprint": "0123456789abcdef"}))
    with pytest.raises(PanelMismatchError, match="made for data 0123456789abcdef, this installation has [0-9a-f]{16}"):
        Panel.load(path).check(ToyShopEnv())
    Panel.all(ToyShopEnv(), env_id=ID, split="train").check(ToyShopEnv())


def test_failed_write_leaves_the_old_file_and_no_rest(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "\ud800")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]
