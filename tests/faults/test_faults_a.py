"""A: reproducibility, seeds, groups. One test per known fault of such systems, its id in the name."""

import random

import gymnasium as gym
import numpy as np
import pytest
from toy_envs import OwnTaskTableEnv, ToyShopEnv, UnseededEnv, shop

from agent_envs import Panel
from agent_envs.errors import GroupMismatchError
from agent_envs.groups import GroupVectorEnv
from agent_envs.panels import evaluate


def panel():
    return Panel.all(ToyShopEnv(), env_id="toys/Shop-v0", split="train")


def opens_its_number(observations, infos, rows):
    """Solves tasks 0, 1 and 2 of 5; a function of the row's own episode."""
    known = {f"toyshop/train/{i}": i for i in range(3)}
    return [
        f"open {known.get(infos['task_id'][row], 0)}" if infos["turn"][row] == 0 else "buy" for row in np.asarray(rows)
    ]


@pytest.mark.parametrize("num_envs", [2, 3, 4, 8])
@pytest.mark.parametrize(("executor", "num_workers"), [("serial", None), ("threads", 1), ("threads", 3)])
def test_a1_score_does_not_depend_on_the_number_of_environments_or_workers(num_envs, executor, num_workers):
    vec = GroupVectorEnv(shop, num_envs=num_envs, group_size=1, executor=executor, num_workers=num_workers)
    result = evaluate(opens_its_number, panel(), vec)
    vec.close()
    assert [task.task_index for task in result.tasks] == [0, 1, 2, 3, 4]
    assert result.success_rate == pytest.approx(0.6)


@pytest.mark.parametrize(("num_tasks", "rows"), [(5, 4), (134, 128), (128, 128), (1, 128)])
def test_a2_last_batch_is_masked_without_repeats_or_gaps(num_tasks, rows):
    data = Panel(env_id="x", env_kwargs={}, split="test", indices=tuple(range(num_tasks)), fingerprint="")
    batches = list(data.batches(rows))
    assert all(batch.shape == (rows,) for batch in batches)
    assert [i for batch in batches for i in batch if i >= 0] == list(range(num_tasks))


def test_a2_padding_rows_are_played_by_nobody():
    stepped = []

    class Counted(ToyShopEnv):
        def step(self, action):
            stepped.append(self._task_id)
            return super().step(action)

    Counted.__name__ = "ToyShopEnv"
    evaluate(opens_its_number, panel(), GroupVectorEnv(Counted, num_envs=4, group_size=1))
    assert sorted(stepped) == sorted([f"toyshop/train/{i}" for i in range(5)] * 2)


def test_a4_finished_rows_are_left_out_of_the_policy_calls():
    asked = []

    def policy(observations, infos, rows):
        asked.append(rows.tolist())
        return [["open 0", "buy"][min(infos["turn"][row], 1)] if row else "draw" for row in rows]

    vec = GroupVectorEnv(lambda: shop(max_turns=4), num_envs=3, group_size=1)
    evaluate(policy, Panel.sample(ToyShopEnv(), env_id="toys/Shop-v0", split="train", size=3), vec)
    assert asked == [[0, 1, 2], [0, 1, 2], [0], [0]]


def test_a4_sampler_seed_decides_the_panel():
    def draw(seed):
        return Panel.sample(ToyShopEnv(), env_id="toys/Shop-v0", split="train", size=2, seed=seed).indices

    assert draw(1) == draw(1) and len({draw(seed) for seed in range(20)}) > 1


@pytest.mark.parametrize(("env", "text"), [(UnseededEnv, "task unseeded/train/2"), (OwnTaskTableEnv, "owntasktable")])
def test_a5_members_with_their_own_tables_are_refused_and_the_task_is_named(env, text):
    vec = GroupVectorEnv(env, num_envs=4, group_size=4)
    with pytest.raises(GroupMismatchError, match=f"group 0 .*{text}"):
        vec.reset(seed=0, options={"task_index": 2})


@pytest.mark.parametrize("index", range(5))
def test_a7_task_index_loads_exactly_this_task(index):
    for seed in (0, 1, None):
        _, info = ToyShopEnv().reset(seed=seed, options={"task_index": index})
        assert info["task_id"] == f"toyshop/train/{index}" and info["task"] == f"buy {ToyShopEnv.ITEMS[index]}"
        _, info = GroupVectorEnv(shop, num_envs=2, group_size=2).reset(seed=seed, options={"task_index": index})
        assert info["task_id"].tolist() == [f"toyshop/train/{index}"] * 2


def test_a9_validation_beside_training_changes_nothing():
    def train(validate):
        before = random.getstate(), np.random.get_state()[1].tolist()
        vec = GroupVectorEnv(shop, num_envs=4, group_size=2)
        stream = []
        for seed in (0, None, None):
            stream.append(vec.reset(seed=seed)[1]["luck"].tolist())
            if validate:
                evaluate(opens_its_number, panel(), GroupVectorEnv(shop, num_envs=2, group_size=1))
            stream.append(vec.step(["draw"] * 4)[1].tolist())
        assert (random.getstate(), np.random.get_state()[1].tolist()) == before
        return stream

    assert train(validate=True) == train(validate=False)


def test_a10_reset_does_not_reseed_the_caller():
    def next_number(reset):
        random.seed(5)
        if reset:
            ToyShopEnv().reset(seed=1)
            GroupVectorEnv(shop, num_envs=2, group_size=2).reset(seed=1)
        return random.random()

    assert next_number(reset=True) == next_number(reset=False)


def test_a15_equal_texts_of_two_tasks_never_share_a_step_group():
    class Nothing(ToyShopEnv):
        def _observe(self):
            return "Nothing happens."

    for state_key in ("canonical", "observation"):
        vec = GroupVectorEnv(lambda key=state_key: Nothing(state_key=key), num_envs=4, group_size=2)
        observations, info = vec.reset(seed=0, options={"task_index": [1, 2]})
        assert set(observations) == {"Nothing happens."}
        assert info["state_key"][0] == info["state_key"][1] != info["state_key"][2]
        # The same task in two groups has one key; step groups are (group, key) all the same.
        _, info = vec.reset(seed=0, options={"task_index": [1, 1]})
        assert len({*zip(vec.group_index.tolist(), info["state_key"], strict=True)}) == 2


def test_a16_evaluating_twice_plays_the_same_panel_in_the_same_order():
    order = []

    def policy(observations, infos, rows):
        order.extend(infos["task_id"][row] for row in rows if infos["turn"][row] == 0)
        return opens_its_number(observations, infos, rows)

    vec = GroupVectorEnv(shop, num_envs=2, group_size=1)
    first = evaluate(policy, panel(), vec)
    assert evaluate(policy, panel(), vec) == first
    assert order == [f"toyshop/train/{i}" for i in range(5)] * 2


def test_a16_shipped_environments_too():
    env = gym.make("agent_envs/EZPoints-v0").unwrapped
    panels = [Panel.sample(env, env_id="agent_envs/EZPoints-v0", split="test", size=3, seed=0) for _ in range(2)]
    assert panels[0] == panels[1]
