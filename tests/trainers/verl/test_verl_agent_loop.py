"""The agent loop with a scripted server and real environments: no Ray, no model."""

import asyncio
import copy
import functools

import gymnasium as gym
import pytest

pytest.importorskip("verl")

import yaml  # noqa: E402

from agent_envs.records import Status  # noqa: E402
from agent_envs.trainers.verl.config import compose  # noqa: E402
from agent_envs.trainers.verl.turns import FIELD, make_batch  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

SHOP = [
    "agent_envs.env_id=toys/Shop-v0",
    "agent_envs.env_kwargs={}",
    "agent_envs.prompt=papers",
    "agent_envs.memory=window",
]
LENGTHS = ["data.max_prompt_length=2000", "data.max_response_length=120"]


@functools.cache
def _composed():
    return compose("cpu_ezpoints_gigpo")


def configured(*overrides):
    """Return the CPU recipe with some keys changed, as fast as composing again is slow."""
    from omegaconf import OmegaConf, open_dict

    config = copy.deepcopy(_composed())
    with open_dict(config):
        for override in overrides:
            key, _, value = override.partition("=")
            OmegaConf.update(config, key, yaml.safe_load(value), merge=key != "agent_envs.env_kwargs")
    return config


@pytest.fixture(scope="module")
def tokenizer():
    from agent_envs.trainers.verl.cpu.models import _byte_tokenizer

    return _byte_tokenizer()


@pytest.fixture
def shop(toys):
    from agent_envs.trainers.verl import envs

    yield
    for pool in envs._POOLS.values():
        pool.close()
    envs._POOLS.clear()


class Server:
    """Answers with the given replies, one after another, then with the last one forever."""

    def __init__(self, tokenizer, replies, *, end=True):
        self.tokenizer, self.replies, self.end = tokenizer, list(replies), end
        self.calls = []

    async def generate(self, request_id, prompt_ids, sampling_params, image_data=None, **unused):
        from verl.workers.rollout.replica import TokenOutput

        self.calls.append((list(prompt_ids), dict(sampling_params), image_data))
        sampling_params.clear()  # engines take keys out of it
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        ids = self.tokenizer.encode(reply, add_special_tokens=False)
        ids += [self.tokenizer.eos_token_id] if self.end else []
        return TokenOutput(
            token_ids=ids, log_probs=[-0.5] * len(ids), extra_fields={"global_steps": 3, "min_global_steps": 3}
        )


def act(text):
    return f"<think>so</think><action>{text}</action>"


def make_loop(tokenizer, server, *overrides):
    from verl.experimental.agent_loop.agent_loop import DictConfigWrap

    from agent_envs.trainers.verl.agent_loop import EnvAgentLoop
    from agent_envs.trainers.verl.dataset import TaskDataset

    config = configured(*SHOP, *LENGTHS, *overrides)

    async def build():
        return EnvAgentLoop(
            trainer_config=DictConfigWrap(config),
            server_manager=server,
            tokenizer=tokenizer,
            processor=None,
            dataset_cls=TaskDataset,
            data_config=DictConfigWrap(config.data),
            hf_model_type="qwen2",
        )

    return build


def play(tokenizer, server, *overrides, index=1, seed=5, split="train"):
    async def episode():
        loop = await make_loop(tokenizer, server, *overrides)()
        row = {"split": split, "task_index": index, "seed": seed}
        params = {"temperature": 1.0, "logprobs": True}
        outputs = await loop.run(params, extra_info=row, raw_prompt=[], uid="u", session_id=0, global_steps=4)
        assert params == {"temperature": 1.0, "logprobs": True}
        return outputs

    return asyncio.run(episode())


def facts(outputs):
    return outputs[-1].extra_fields[FIELD]["episode"]


def turns(outputs):
    return [item["turn"] for output in outputs for item in output.extra_fields[FIELD]["turns"]]


def test_one_output_per_turn(tokenizer, shop):
    server = Server(tokenizer, [act("open 1"), act("buy")])
    outputs = play(tokenizer, server)
    assert len(outputs) == 2 and [turn["turn"] for turn in turns(outputs)] == [0, 1]
    assert facts(outputs)["success"] and facts(outputs)["outcome"] == 10.0
    for output, (prompt, params, images) in zip(outputs, server.calls, strict=True):
        assert output.prompt_ids == prompt and images is None
        assert params["max_tokens"] == 120 and params["temperature"] == 1.0
        assert output.response_mask == [1] * len(output.response_ids)
        assert output.response_logprobs == [-0.5] * len(output.response_ids)
        # What verl reads of every output.
        assert output.reward_score == 10.0 and output.num_turns == 2
        assert output.extra_fields["reward_extra_info"]["acc"] == 1.0
        assert output.extra_fields["min_global_steps"] == output.extra_fields["max_global_steps"] or 1
        (item,) = output.extra_fields[FIELD]["turns"]
        assert (item["start"], item["end"]) == (0, len(output.response_ids))
    first, second = turns(outputs)
    assert first["next_state_key"] == second["state_key"] != first["state_key"]
    assert second["terminated"] and second["status"] == "completed" and not first["terminated"]
    # The second prompt shows the first turn: memory is rendered per turn.
    assert "open 1" in tokenizer.decode(server.calls[1][0])


def test_sampled_ids_are_kept_as_they_are(tokenizer, shop):
    """Ids that decode to the same text as others must come through unchanged."""
    server = Server(tokenizer, [act("open 1") + " caf\u00e9 \u221a", act("buy")])
    outputs = play(tokenizer, server)
    assert outputs[0].response_ids == [
        *tokenizer.encode(act("open 1") + " caf\u00e9 \u221a", add_special_tokens=False),
        tokenizer.eos_token_id,
    ]


def test_members_of_a_group_start_alike_and_share_prompts(tokenizer, shop):
    servers = [Server(tokenizer, [act("open 1"), act("buy")]), Server(tokenizer, [act("open 2"), act("buy")])]
    outputs = [play(tokenizer, server) for server in servers]
    keys, records = [], []
    for session, own in enumerate(outputs):
        for index, output in enumerate(own):
            keys.append(f"u_{session}_{index}")
            records.append(output.extra_fields[FIELD])
    batch = make_batch(keys, [{}] * len(keys), records)
    assert len(batch.episodes()) == 2
    assert servers[0].calls[0][0] == servers[1].calls[0][0]
    assert not facts(outputs[1])["success"]


def test_malformed_replies_are_refused_and_remembered(tokenizer, shop):
    server = Server(tokenizer, ["just buy it", act("open 1"), act("buy")])
    outputs = play(tokenizer, server)
    first = turns(outputs)[0]
    assert (first["format_ok"], first["action_is_valid"], first["action"]) == (False, False, "")
    assert first["state_key"] == first["next_state_key"]
    assert "just buy it" in tokenizer.decode(server.calls[1][0])


def test_over_long_replies_are_cut(tokenizer, shop):
    outputs = play(
        tokenizer, Server(tokenizer, [act("open 1") + "x" * 500], end=False), "agent_envs.env_kwargs.max_turns=2"
    )
    assert [len(output.response_ids) for output in outputs] == [120, 120]
    assert turns(outputs)[-1]["status"] == "truncated_max_turns" and turns(outputs)[0]["format_ok"]


def test_prompts_that_cannot_fit_end_the_episode_and_are_counted(tokenizer, shop):
    outputs = play(tokenizer, Server(tokenizer, [act("open 1")]), "data.max_prompt_length=60")
    assert len(outputs) == 1 and outputs[0].response_mask == [0]
    assert facts(outputs)["too_long"] and facts(outputs)["num_turns"] == 0 and not facts(outputs)["infra_error"]


def test_history_is_dropped_before_a_prompt_grows_too_long(tokenizer, shop):
    server = Server(tokenizer, [act("open 1"), act("open 2"), act("open 3"), act("buy")])
    whole = play(tokenizer, Server(tokenizer, list(server.replies)))
    longest = max(len(output.prompt_ids) for output in whole)
    outputs = play(tokenizer, server, f"data.max_prompt_length={longest - 1}")
    assert len(outputs) == 4 and facts(outputs)["num_turns_dropped"] >= 1
    assert max(len(prompt) for prompt, _, _ in server.calls) < longest


def test_an_error_of_the_environment_masks_the_episode(tokenizer, shop):
    outputs = play(tokenizer, Server(tokenizer, [act("open 1"), act("fault raise")]))
    assert len(outputs) == 2
    assert all(not any(output.response_mask) for output in outputs)
    assert facts(outputs)["infra_error"].startswith("error_env: RuntimeError: boom")
    assert turns(outputs)[-1]["status"] == Status.ERROR_ENV and turns(outputs)[-1]["truncated"]
    assert outputs[0].extra_fields["reward_extra_info"] == {
        "acc": None,
        "score": None,
        "outcome": 0.0,
        "infra_error": 1.0,
    }
    # The broken environment is rebuilt: the next episode plays.
    again = play(tokenizer, Server(tokenizer, [act("open 1"), act("buy")]))
    assert facts(again)["success"]


def test_a_failed_reset_gives_one_masked_row(tokenizer, shop):
    outputs = play(tokenizer, Server(tokenizer, [act("buy")]), "agent_envs.env_kwargs.fail_resets=[1]")
    assert len(outputs) == 1 and outputs[0].response_mask == [0]
    assert "no shop 1" in facts(outputs)["infra_error"]
    assert outputs[0].extra_fields["max_global_steps"] == 4


def test_a_call_over_its_time_limit_is_an_error(tokenizer, shop):
    slow = Server(tokenizer, [act("fault sleep 0.4")])
    outputs = play(tokenizer, slow, "verl.step_timeout_s=0.05", "verl.executor=threads")
    assert facts(outputs)["infra_error"].startswith("error_timeout: step of")


def test_image_tokens_in_a_reply_cut_it(tokenizer, shop, monkeypatch):
    from agent_envs.trainers.verl.agent_loop import EnvAgentLoop

    pad = tokenizer.convert_tokens_to_ids("<|image_pad|>")
    monkeypatch.setattr(EnvAgentLoop, "_image_token_ids", lambda self: frozenset([pad]))
    server = Server(tokenizer, ["<|image_pad|>oh", act("open 1") + "<|image_pad|>", act("buy")])
    outputs = play(tokenizer, server)
    assert all(pad not in output.response_ids for output in outputs)
    # Nothing of the first reply is the policy's own; verl needs a token, and it is not trained on.
    assert outputs[0].response_mask == [0] and turns(outputs)[0]["format_ok"] is False
    assert turns(outputs)[1]["format_ok"] and facts(outputs)["num_image_tokens"] == 2 and facts(outputs)["success"]


CONCATENATED = ("agent_envs.context=concatenated", "data.max_response_length=900")


def test_a_conversation_is_one_output_with_a_mask(tokenizer, shop):
    server = Server(tokenizer, [act("open 1"), act("buy")])
    (output,) = play(tokenizer, server, *CONCATENATED)
    assert facts([output])["success"] and len(turns([output])) == 2
    assert len(output.response_ids) == len(output.response_mask) == len(output.response_logprobs)
    (one, two) = output.extra_fields[FIELD]["turns"]
    for item, reply in ((one, act("open 1")), (two, act("buy"))):
        ids = output.response_ids[item["start"] : item["end"]]
        assert tokenizer.decode(ids) == reply + "<|im_end|>"
        assert all(output.response_mask[item["start"] : item["end"]])
    assert sum(output.response_mask) == sum(item["end"] - item["start"] for item in (one, two))
    between = tokenizer.decode(output.response_ids[one["end"] : two["start"]])
    assert between == "\n<|im_start|>user\nPage: blue mug<|im_end|>\n<|im_start|>assistant\n"
    # The second call read exactly the first prompt and what the row holds up to then.
    assert server.calls[1][0] == output.prompt_ids + output.response_ids[: two["start"]]


def test_a_conversation_without_room_ends_and_is_counted(tokenizer, shop):
    server = Server(tokenizer, [act("open 1")])
    (output,) = play(tokenizer, server, "agent_envs.context=concatenated", "data.max_response_length=250")
    assert len(output.response_ids) <= 250
    assert facts([output])["too_long"] and turns([output])[-1]["status"] == "truncated_length"
    assert turns([output])[-1]["truncated"]


def test_a_turn_of_a_conversation_has_its_own_limit(tokenizer, shop):
    server = Server(tokenizer, [act("open 1") + "y" * 300], end=False)
    (output,) = play(tokenizer, server, *CONCATENATED, "verl.max_turn_tokens=60")
    first = output.extra_fields[FIELD]["turns"][0]
    assert first["end"] - first["start"] == 60 and server.calls[0][1]["max_tokens"] == 60


def test_rollouts_of_one_process_go_on_side_by_side(tokenizer, shop):
    async def both():
        rows = []
        for session in range(6):
            loop = await make_loop(tokenizer, Server(tokenizer, [act("open 1"), act("buy")]))()
            row = {"split": "train", "task_index": 1, "seed": 5}
            rows.append(loop.run({"temperature": 1.0}, extra_info=row, session_id=session, uid="u", global_steps=1))
        return await asyncio.gather(*rows)

    assert [facts(outputs)["success"] for outputs in asyncio.run(both())] == [True] * 6


def test_environments_in_processes(tokenizer):
    """A spawned worker owns the environment; one that dies is an error row, and the next episode gets a new one."""
    from agent_envs.trainers.verl import envs

    async def walk(pool, actions):
        async with pool.lease() as env:
            outcomes = [await env.reset(5, {"split": "train", "task_index": 1})]
            outcomes += [await env.step(action) for action in actions]
        return outcomes

    from agent_envs.trainers.verl.config import sections

    config = configured("verl.executor=processes", "verl.num_workers=1")
    pool = envs.EnvPool(*sections(config))
    try:
        plain = envs.EnvPool(*sections(configured()))
        ours, theirs = asyncio.run(walk(pool, ["7"])), asyncio.run(walk(plain, ["7"]))
        assert [outcome[4]["state_key"] for outcome in ours] == [outcome[4]["state_key"] for outcome in theirs]
        (executor,) = pool._executors
        next(iter(executor._processes.values())).kill()
        (lost,) = asyncio.run(walk(pool, []))
        assert str(lost.status) == "error_env" and "worker process died" in lost.text("reset")
        (fine,) = asyncio.run(walk(pool, []))
        assert fine[4]["state_key"] == ours[0][4]["state_key"]
        plain.close()
    finally:
        pool.close()


def test_dataset_rows():
    from agent_envs.trainers.verl.dataset import TaskDataset

    config = configured("agent_envs.panel.size=5")
    train, panel = TaskDataset("train", config=config.data), TaskDataset(["panel"], config=config.data)
    rows = [train[place]["extra_info"] for place in range(20)]
    assert rows == [TaskDataset("train", config=config.data)[place]["extra_info"] for place in range(20)]
    assert len({row["task_index"] for row in rows}) == 20 and len({row["seed"] for row in rows}) == 20
    assert len(panel) == 5
    indices = [panel[place]["extra_info"]["task_index"] for place in range(5)]
    assert indices == sorted(set(indices)) and {panel[0]["extra_info"]["split"]} == {"test"}
    assert panel[0]["data_source"] == "EZPoints-v0" and panel[0]["agent_name"] == "agent_envs"
    other = TaskDataset("train", config=configured("agent_envs.seed=1").data)
    assert other[0]["extra_info"] != rows[0]
    with pytest.raises(ValueError, match="'train' or 'panel'"):
        TaskDataset("train.parquet", config=config.data)


def test_each_visit_sees_every_task_once(shop):
    from agent_envs.trainers.verl.dataset import TaskDataset

    config = configured(*SHOP, "agent_envs.panel={split: test, size: all}")
    train = TaskDataset("train", config=config.data)
    visits = [[train[place]["extra_info"]["task_index"] for place in range(5 * k, 5 * k + 5)] for k in range(4)]
    assert all(sorted(visit) == [0, 1, 2, 3, 4] for visit in visits)
    assert len({tuple(visit) for visit in visits}) > 1
    assert len(TaskDataset("panel", config=config.data)) == 3


def test_every_registered_executor_is_known():
    for env_id, spec in gym.registry.items():
        if env_id.startswith("agent_envs/"):
            assert spec.kwargs.get("executor", "serial") in ("serial", "threads", "processes")
