from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from agent_envs.trainers.local.generation import generate, reply_logprobs  # noqa: E402
from agent_envs.trainers.local.policy import Policy, build_tiny_model, build_tokenizer, make_policy  # noqa: E402
from agent_envs.trainers.recipe import LocalSection  # noqa: E402

LOCAL = LocalSection(max_prompt_tokens=64, max_response_tokens=16, device="cpu")
TEXTS = ["go left", "go right", "<action>up</action>", "#_XP\n#O√#", "Cards: 10, 6. Formula: 6 +"]
PROMPTS = ["go left", "a much longer prompt: go right, go left", "go left", "#_XP"]


@pytest.fixture(scope="module")
def policy() -> Policy:
    tokenizer = build_tokenizer(TEXTS)
    return make_policy(build_tiny_model(len(tokenizer), LOCAL, seed=3), tokenizer, LOCAL)


def test_frequent_phrases_are_one_token_and_cells_and_numbered_things_too():
    lines = [f"You arrive at drawer {n}. On the drawer {n}, you see a mug {n % 3}." for n in range(6)]
    tokenizer = build_tokenizer([*lines, "go to drawer 2", "#_XP\n#O_#"])

    def pieces(text):
        return [tokenizer.decode([token]) for token in tokenizer(text)["input_ids"]]

    parts = ["You arrive at", " drawer 4", ". On the", " drawer 4", ", you see a", " mug 1", "."]
    assert pieces(lines[4]) == parts
    assert pieces("#_XP\n#O_#") == list("#_XP\n#O_#")
    for text in (*lines, "You see a go mug 2", "never said: Zebra 77"):
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def uniforms(rows: int, length: int = 12, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((rows, length))


def never(ids: object) -> bool:
    return False


def sample(policy: Policy, prompts: list[str], numbers: np.ndarray, **kwargs: object):
    ids = [policy.encode(prompt) for prompt in prompts]
    options = {"temperature": 1.0, "eos_ids": [], "stop": never, **kwargs}
    return ids, generate(policy.model, ids, uniforms=numbers, **options)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_cached_logprobs_equal_a_full_forward_pass(policy, temperature):
    ids, replies = sample(policy, PROMPTS, uniforms(4), temperature=temperature)
    with torch.no_grad():
        full = reply_logprobs(policy.model, ids, [reply.ids for reply in replies], temperature=temperature)
        whole = [policy.model(input_ids=torch.tensor([i + r.ids])).logits[0] for i, r in zip(ids, replies, strict=True)]
        alone = [
            torch.log_softmax(logits[len(prompt) - 1 : -1] / temperature, -1)
            for logits, prompt in zip(whole, ids, strict=True)
        ]
    for row, reply in enumerate(replies):
        assert np.allclose(full[row, : len(reply.ids)].numpy(), reply.logprobs, atol=1e-5)
        picked = alone[row].gather(1, torch.tensor(reply.ids)[:, None])[:, 0]
        assert np.allclose(picked.numpy(), reply.logprobs, atol=1e-5)


def test_a_row_does_not_depend_on_the_rows_beside_it(policy):
    numbers = uniforms(4)
    _, together = sample(policy, PROMPTS, numbers)
    for row, prompt in enumerate(PROMPTS):
        _, alone = sample(policy, [prompt], numbers[row : row + 1])
        assert alone[0].ids == together[row].ids
        assert np.allclose(alone[0].logprobs, together[row].logprobs, atol=1e-5)


def test_rows_stop_on_their_own_and_the_rest_goes_on(policy):
    _, free = sample(policy, PROMPTS, uniforms(4))
    eos = free[1].ids[2]
    ids, cut = sample(policy, PROMPTS, uniforms(4), eos_ids=[eos])
    for before, after in zip(free, cut, strict=True):
        end = before.ids.index(eos) + 1 if eos in before.ids else len(before.ids)
        assert after.ids == before.ids[:end]
        assert after.finished == (eos in before.ids)
    assert any(len(reply.ids) == 12 for reply in cut) and any(len(reply.ids) < 12 for reply in cut)


def test_stop_string_ends_a_reply_even_across_tokens(policy):
    stop = policy.stop("</action>")
    spelled = policy.encode("left") + [policy.encode(character)[-1] for character in "</action>"]
    assert policy.decode(spelled) == "left</action>"
    assert [stop(spelled[: n + 1]) for n in range(len(spelled))] == [False] * (len(spelled) - 1) + [True]
    assert len(policy.encode("</action>")) == 1 and stop(policy.encode("</action>"))
    assert not policy.stop(None)(spelled)


def test_greedy_takes_the_likeliest_token(policy):
    _, first = sample(policy, PROMPTS, uniforms(4, seed=1), temperature=0.0)
    _, second = sample(policy, PROMPTS, uniforms(4, seed=2), temperature=0.0)
    assert [reply.ids for reply in first] == [reply.ids for reply in second]
    with torch.no_grad():
        logits = policy.model(input_ids=torch.tensor([policy.encode("go left")])).logits[0, -1]
    assert first[0].ids[0] == int(logits.argmax())


def test_sampling_follows_the_distribution(policy):
    prompt = [policy.encode("go")]
    with torch.no_grad():
        wanted = torch.softmax(policy.model(input_ids=torch.tensor(prompt)).logits[0, -1], -1).numpy()
    grid = (np.arange(2000)[:, None] + 0.5) / 2000
    replies = generate(policy.model, prompt * 2000, uniforms=grid, temperature=1.0, eos_ids=[], stop=never)
    counts = np.bincount([reply.ids[0] for reply in replies], minlength=len(wanted))
    assert np.abs(counts / 2000 - wanted).max() < 1e-3


def test_gradients_reach_rows_that_share_their_text(policy):
    ids, replies = policy.encode("go left"), policy.encode("up")
    both = reply_logprobs(policy.model, [ids, ids], [replies, replies], temperature=1.0)
    both.sum().backward()
    twice = policy.model.lm_head.weight.grad.clone()
    policy.model.zero_grad()
    reply_logprobs(policy.model, [ids], [replies], temperature=1.0).sum().backward()
    assert torch.allclose(twice, 2 * policy.model.lm_head.weight.grad, atol=1e-6)
    policy.model.zero_grad()


@pytest.mark.parametrize("text", [*TEXTS, "never seen words ZQ 987\t~{}", "Cards: 10"])
def test_tokenizer_round_trip(policy, text):
    assert policy.decode(policy.encode(text)) == text


def test_every_cell_of_a_grid_is_one_token(policy):
    assert len(policy.encode("#_XP")) == 4 and len(policy.encode("#O√#")) == 4


def test_tokenizer_and_model_survive_saving(policy, tmp_path):
    from agent_envs.trainers.local.policy import load_policy

    policy.save(tmp_path)
    again = load_policy(tmp_path, LOCAL)
    for text in TEXTS:
        assert again.encode(text) == policy.encode(text)
    assert again.eos_ids == policy.eos_ids == [1]
    for name, value in policy.model.state_dict().items():
        assert torch.equal(value, again.model.state_dict()[name]), name


def test_weights_depend_on_the_seed_only_and_leave_the_global_generator_alone():
    before = torch.get_rng_state()
    first, again, other = (build_tiny_model(50, LOCAL, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(first.lm_head.weight, again.lm_head.weight)
    assert not torch.equal(first.lm_head.weight, other.lm_head.weight)


def test_chat_template_is_used_where_the_tokenizer_has_one(policy):
    tokenizer = build_tokenizer(["user: go left assistant:"])
    tokenizer.chat_template = "user: {{ messages[0]['content'] }} assistant:"
    chat = make_policy(policy.model, tokenizer, LOCAL)
    assert chat.decode(chat.encode_prompt("go left")) == "user: go left assistant:"
