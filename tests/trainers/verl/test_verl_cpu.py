"""The CPU backend's server and its small models, without Ray."""

import asyncio

import pytest

pytest.importorskip("verl")
torch = pytest.importorskip("torch")

from agent_envs.trainers.local.generation import reply_logprobs  # noqa: E402
from agent_envs.trainers.recipe import load_recipe  # noqa: E402
from agent_envs.trainers.verl.cpu.models import make_qwen2, make_tiny_model  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_qwen2(tmp_path_factory.mktemp("models") / "qwen2")


@pytest.fixture
def server(folder):
    from agent_envs.trainers.verl.cpu.replica import TransformersServer

    return TransformersServer(str(folder), seed=1, max_tokens=6)


def ask(server, prompts, **params):
    async def together():
        return await asyncio.gather(*(server.generate(str(i), ids, dict(params)) for i, ids in enumerate(prompts)))

    return asyncio.run(together())


def test_replies_come_with_the_log_probabilities_of_the_trainer(server):
    prompts = [[5, 6, 7], [8], [5, 6, 7], [9, 10, 11, 12, 13]]
    replies = ask(server, prompts, temperature=0.7)
    assert all(1 <= len(reply.token_ids) <= 6 for reply in replies)
    ids = [reply.token_ids for reply in replies]
    with torch.no_grad():
        expected = reply_logprobs(server._model, prompts, ids, temperature=0.7)
    for row, reply in enumerate(replies):
        assert reply.log_probs == pytest.approx(expected[row, : len(reply.token_ids)].tolist(), abs=1e-4)
    assert replies[0].extra_fields == {"global_steps": 0}


def test_every_request_keeps_its_own_limit(server):
    async def together():
        long = server.generate("a", [5, 6], {"temperature": 1.0, "max_tokens": 5})
        short = server.generate("b", [5, 6], {"temperature": 1.0, "max_tokens": 2})
        return await asyncio.gather(long, short)

    long, short = asyncio.run(together())
    assert len(short.token_ids) == len(short.log_probs) <= 2 and len(long.token_ids) <= 5


def test_greedy_replies_are_the_likeliest(server):
    first, second = ask(server, [[5, 6, 7]] * 2, temperature=0)
    assert first.token_ids == second.token_ids
    with torch.no_grad():
        logits = server._model(torch.tensor([[5, 6, 7]])).logits[0, -1]
    assert first.token_ids[0] == int(logits.argmax())


def test_new_weights_are_used_and_unknown_ones_refused(server, folder):
    before = ask(server, [[5, 6, 7]], temperature=0)[0]
    torch.manual_seed(0)
    weights = {name: torch.randn_like(tensor) * 0.1 for name, tensor in server._model.state_dict().items()}
    asyncio.run(server.load_weights(weights, 7))
    after = ask(server, [[5, 6, 7]], temperature=0)[0]
    assert after.extra_fields == {"global_steps": 7} and after.log_probs != before.log_probs
    with pytest.raises(ValueError, match="nonsense.weight"):
        asyncio.run(server.load_weights({"nonsense.weight": torch.zeros(1)}, 8))


def test_an_error_reaches_its_own_request_only(server):
    async def together():
        bad = server.generate("a", [10**6], {"temperature": 0.5})
        good = server.generate("b", [5], {"temperature": 1.0})
        return await asyncio.gather(bad, good, return_exceptions=True)

    bad, good = asyncio.run(together())
    assert isinstance(bad, Exception) and good.token_ids


def test_tiny_models_give_the_local_trainers_prompts(tmp_path):
    from transformers import AutoTokenizer

    from agent_envs.trainers.local.policy import make_policy

    recipe = load_recipe("ezpoints_tiny_gigpo")
    local = {"clone_target": 0.0, "clone_episodes": 4, "max_prompt_tokens": 64, "max_response_tokens": 4}
    folder = make_tiny_model(recipe.agent_envs, local, tmp_path)
    assert make_tiny_model(recipe.agent_envs, local, tmp_path) == folder
    tokenizer = AutoTokenizer.from_pretrained(folder)
    text = "cards 3 4\naction:"
    messages = [{"role": "user", "content": text}]
    ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=False)
    assert ids == tokenizer(text, add_special_tokens=False)["input_ids"]
    from transformers import AutoModelForCausalLM

    policy = make_policy(AutoModelForCausalLM.from_pretrained(folder), tokenizer, recipe.local)
    assert policy.encode_prompt(text) == ids


def test_byte_tokenizer_suits_verls_qwen_builder(folder):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert len(tokenizer.encode("\n")) == 1 and tokenizer.eos_token == "<|im_end|>"
    assert tokenizer.decode(tokenizer.encode("caf\u00e9 \u221a <b>")) == "caf\u00e9 \u221a <b>"
