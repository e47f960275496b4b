"""Clusters of similar texts are those of comparing every pair with difflib."""

import difflib
import random

import pytest

from agent_envs.trainers.advantages import TurnTable, cluster_texts, merge_similar_states

# B is 0.8 like A and like C, but A and C are only 0.6 like each other.
A, B, C = "abcdefghij", "abcdefghyz", "abcdefwxyz"


def by_definition(texts, threshold):
    leaders, clusters = [], []
    for text in texts:
        for number, leader in enumerate(leaders):
            if text == leader or difflib.SequenceMatcher(None, text, leader).ratio() >= threshold:
                clusters.append(number)
                break
        else:
            clusters.append(len(leaders))
            leaders.append(text)
    return clusters


def rooms(count, rng):
    places, things = ["drawer", "cabinet", "shelf"], ["pen", "book", "cd", "mug"]
    return [
        f"You are at {rng.choice(places)} {rng.randint(1, 3)} and see "
        + ", ".join(f"a {rng.choice(things)} {rng.randint(1, 3)}" for _ in range(rng.randint(1, 4)))
        + rng.choice(["", ".", "!"])
        for _ in range(count)
    ]


def edits(count, rng):
    """Copies of one long text with a few changed letters: over 200 letters difflib ignores frequent ones."""
    alphabet = [chr(code) for code in range(0x4E00, 0x4E00 + 70)]
    base = "".join(rng.choice(alphabet) for _ in range(220))
    texts = []
    for _ in range(count):
        letters = list(base)
        for _ in range(rng.randint(0, 20)):
            letters[rng.randrange(len(letters))] = rng.choice(["x", "", "éß", "\U0001f600", "\ud800"])
        texts.append("".join(letters))
    return texts


@pytest.mark.parametrize("make", [rooms, edits])
@pytest.mark.parametrize("threshold", [0.5, 0.9, 0.95])
def test_clusters_equal_those_of_all_pairs(make, threshold):
    texts = make(25, random.Random(1))
    clusters = cluster_texts(texts, threshold)
    assert clusters == by_definition(texts, threshold)
    assert len(set(clusters)) < len(texts)


def test_short_and_empty_texts():
    texts = ["", "a", "", "b", "ab", "ba", "a"]
    assert cluster_texts(texts, 0.6) == by_definition(texts, 0.6)
    assert cluster_texts([], 0.9) == []


def test_the_leader_rule_depends_on_the_order_given():
    assert cluster_texts([A, B, C], 0.8) == [0, 0, 1]
    assert cluster_texts([B, A, C], 0.8) == [0, 0, 0]


@pytest.mark.parametrize("threshold", [0, 1, 1.5, float("nan")])
def test_bad_threshold(threshold):
    with pytest.raises(ValueError, match=r"threshold must be in \(0, 1\), for example 0.95, got"):
        cluster_texts(["a"], threshold)


def table(order, **changes):
    """One group of one-turn trajectories but for the last, which has two."""
    columns = {
        "group": [0, 0, 0, 0, 1],
        "traj": [0, 1, 2, 2, 0],
        "t": [0, 0, 0, 1, 0],
        "state": [B, A, C, C, B],
        "next_state": [None, B, None, C, C],
        "reward": [1, 2, 0, 3, 5],
        "valid": [True] * 5,
        "terminated": [True, True, False, True, True],
        "truncated": [False] * 5,
        "success": [True] * 5,
    }
    columns |= changes
    return TurnTable(**{name: [column[i] for i in order] for name, column in columns.items()})


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [1, 0, 4, 3, 2], [3, 2, 1, 0, 4]])
def test_merged_states_do_not_depend_on_the_row_order(order):
    merged = merge_similar_states(table(order), 0.8)
    # Sorted by first turn and text A, B, C meet the rule in this order; group 1 is on its own.
    assert merged.state == [[A, A, C, C, B][i] for i in order]
    assert merged.next_state == [[None, A, None, C, C][i] for i in order]


def test_the_row_order_rule_of_the_released_code():
    assert merge_similar_states(table([0, 1, 2, 3, 4]), 0.8, order="row").state == [B, B, B, B, B]
    assert merge_similar_states(table([1, 0, 2, 3, 4]), 0.8, order="row").state == [A, A, C, C, B]


def test_rows_of_weight_0_keep_their_text_and_found_no_cluster():
    merged = merge_similar_states(table(range(5), weight=[1, 0, 1, 1, 1]), 0.8)
    assert merged.state == [B, A, B, B, B]


def test_merging_needs_texts_and_a_known_order():
    with pytest.raises(TypeError, match="Similarity needs texts in the state column, got int 3"):
        merge_similar_states(table(range(5), state=[3] * 5))
    with pytest.raises(ValueError, match="order must be one of 'first_turn', 'row', got 'traj'"):
        merge_similar_states(table(range(5)), order="traj")
    assert len(merge_similar_states(table([]), 0.9)) == 0
