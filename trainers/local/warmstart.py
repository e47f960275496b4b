"""The policy a run starts from: loaded by name, or built and taught by behaviour cloning on oracle walks.

A policy that never succeeds learns nothing from comparing its own rollouts. So a tiny model first copies walks of the
environments' oracles, with random actions mixed in, until its measured success rate reaches the recipe's target. The
result is cached by everything it depends on, so that algorithms are compared from one and the same start.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from agent_envs.groups import GroupVectorEnv
from agent_envs.keys import digest
from agent_envs.tags import ReplySpec
from agent_envs.tasks import derive_seed, write_atomically
from agent_envs.trainers.local.agent import Agent, Decision, Prompter, row_info
from agent_envs.trainers.local.checkpoint import write_folder
from agent_envs.trainers.local.generation import pad_right, reply_logprobs
from agent_envs.trainers.local.policy import Policy, build_tiny_model, build_tokenizer, load_policy, make_policy
from agent_envs.trainers.local.report import Stopwatch
from agent_envs.trainers.local.rollout import make_groups, play, rollout_metrics
from agent_envs.trainers.recipe import Recipe

_FORMAT = 2
_ROWS = 64  # episodes played side by side
_CHECK_EPISODES = 128
_GLOBAL_KEYS = (
    *("estimator", "norm", "gamma", "w", "similarity", "penalty", "penalty_mode"),
    *("panel", "num_groups", "group_size"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Demonstration:
    """One turn to copy."""

    prompt: str
    reply: str


def initial_policy(recipe: Recipe, cache: Path, say: Callable[[str], None] = print) -> Policy:
    """Return the policy that a recipe starts from, always the same one.

    Args:
        recipe: The recipe.
        cache: Folder of built and cloned policies; the second call with an equal start loads it.
        say: Takes lines on the progress.
    """
    local = recipe.local
    if local.model != "tiny" and not local.clone_target:
        return load_policy(local.model, local)
    folder = cache / _cache_key(recipe)
    if not (folder / "config.json").is_file():
        write_folder(folder, lambda path: _build(recipe, path, say))
    return load_policy(folder, local)


def _cache_key(recipe: Recipe) -> str:
    plain = recipe.to_dict()
    section = {key: value for key, value in plain["agent_envs"].items() if key not in _GLOBAL_KEYS}
    # Cloning stops by the success rate of sampled episodes: the temperature decides too.
    model = "model hidden_size num_layers num_heads max_prompt_tokens max_response_tokens dtype temperature".split()
    local = {key: value for key, value in plain["local"].items() if key in model or key.startswith("clone_")}
    return digest(json.dumps([_FORMAT, section, local], sort_keys=True), size=8)


def _build(recipe: Recipe, folder: Path, say: Callable[[str], None]) -> None:
    section, local = recipe.agent_envs, recipe.local
    if section.context != "step":
        raise ValueError("Cloning copies single turns: set agent_envs.context=step, or local.model to a trained model.")
    if local.clone_target:
        say(
            f"warm start: cloning oracle walks until {local.clone_target:.0%} of sampled episodes succeed; "
            f"kept in {folder.parent} for the next run"
        )
    demonstrations = oracle_turns(recipe)
    if local.model == "tiny":
        tokenizer = build_tokenizer(text for turn in demonstrations for text in (turn.prompt, turn.reply))
        model = build_tiny_model(len(tokenizer), local, derive_seed(section.seed, "weights"))
        policy = make_policy(model, tokenizer, local)
    else:
        policy = load_policy(local.model, local)
    history = clone(policy, demonstrations, recipe, say) if local.clone_target else []
    policy.save(folder)
    write_atomically(folder / "warm_start.json", json.dumps({"success_by_step": history}) + "\n")


def oracle_turns(recipe: Recipe) -> list[Demonstration]:
    """Return the turns of oracle walks, in which a share of the actions is random.

    A random action is one of ``admissible_actions`` where the environment gives them, else of the actions in the
    oracles' own walks. The oracle answers from wherever that leads. With ``clone_dagger`` a random action is played,
    not copied, and half of the time comes from all oracles' walks, so that many are refused here.
    """
    section, local = recipe.agent_envs, recipe.local
    rng = np.random.Generator(np.random.PCG64(derive_seed(section.seed, "oracle")))
    vector = make_groups(section, local, _ROWS, 1, executor="serial")
    spec = Prompter(section).builder.spec
    turns: list[Demonstration] = []
    pool: set[str] = set()
    try:
        for batch in range(-(-local.clone_episodes // _ROWS)):
            prompter = Prompter(section)
            seed = derive_seed(section.seed, "oracle", batch)
            observations, infos = vector.reset(seed=seed, options={"split": section.split})
            rows = np.flatnonzero(infos["active"]).tolist()[: local.clone_episodes - batch * _ROWS]
            walks = {row: _oracle(vector.envs[row]) for row in rows}
            pool |= {action for walk in walks.values() for action in walk}
            anywhere = sorted(pool)
            while rows:
                actions = []
                for row in rows:
                    info = row_info(infos, row)
                    prompt = prompter.prompt(row, observations[row], info)
                    choices = info.get("admissible_actions") or anywhere
                    if local.clone_dagger and rng.random() < 0.5:
                        choices = anywhere
                    walk = _oracle(vector.envs[row])
                    noisy = not walk or rng.random() < local.clone_noise
                    action = str(rng.choice(choices)) if noisy else walk[0]
                    copied = walk[0] if walk and local.clone_dagger else action
                    if walk or not local.clone_dagger:
                        turns.append(Demonstration(prompt=prompt.text, reply=oracle_reply(spec, copied)))
                    prompter.acted(row, action)
                    actions.append(action)
                observations, _, terminated, truncated, infos = vector.step(actions, rows=rows)
                rows = [row for row in rows if not (terminated[row] or truncated[row])]
    finally:
        vector.close()
    return turns


def _oracle(env: Any) -> list[str]:
    """Return a winning walk from the current state, empty where there is none any more."""
    try:
        return list(env.unwrapped.example_actions())
    except ValueError:
        return []


def oracle_reply(spec: ReplySpec, action: str) -> str:
    """Return a reply that the parser reads as the action: what the policy should write after the response prefix.

    Raises:
        ValueError: If no simple reply is read so.
    """
    stop = spec.stop or ""
    block = f"<action>{action}</action>"
    for reply in (action + stop, block, action, f"<think></think>{block}", f"<think></think>{action}"):
        parsed = spec.parse(reply)
        if parsed.format_ok and spec.env_action(parsed) == action:
            return reply
    raise ValueError(f"Cannot write the oracle's action {action!r} in the reply format of the prompt; choose another.")


def clone(
    policy: Policy, demonstrations: list[Demonstration], recipe: Recipe, say: Callable[[str], None]
) -> list[list[float]]:
    """Train on the demonstrations until the sampled success rate reaches ``clone_target``.

    With ``clone_dagger`` the states that the measured episodes lead to are added with the oracle's answers.

    Returns:
        Pairs of step and measured success rate.
    """
    section, local = recipe.agent_envs, recipe.local
    spec = Prompter(section).builder.spec
    end = [] if spec.stop else policy.eos_ids[:1]
    prefix = policy.encode(spec.response_prefix)
    prompts = {turn.prompt: policy.encode_prompt(turn.prompt) + prefix for turn in demonstrations}
    rows = [(prompts[turn.prompt], policy.encode(turn.reply) + end) for turn in demonstrations]
    rng = np.random.Generator(np.random.PCG64(derive_seed(section.seed, "clone")))
    optimizer = torch.optim.AdamW(policy.model.parameters(), lr=local.clone_lr, betas=(0.9, 0.95), weight_decay=0.0)
    history: list[list[float]] = []
    vector = make_groups(section, local, _CHECK_EPISODES, 1, executor="serial" if local.clone_dagger else None)
    try:
        for step in range(1, local.clone_max_steps + 1):
            batch = [rows[index] for index in rng.integers(len(rows), size=local.clone_batch_rows)]
            _clone_step(policy, optimizer, batch)
            if step % local.clone_check_every == 0:
                success, answers = _measure(policy, recipe, vector, step)
                rows += [
                    (list(prompt), policy.encode(oracle_reply(spec, item)) + end) for prompt, item in answers.items()
                ]
                history.append([step, success])
                say(f"warm start: step {step}, {success:.1%} success")
                if success >= local.clone_target:
                    break
    finally:
        vector.close()
    success = history[-1][1] if history else 0.0
    say(f"warm start: {success:.1%} success after {step} cloning steps on {len(rows)} oracle turns")
    if success < local.clone_target:
        warnings.warn(
            f"Cloning stopped at {success:.1%}, below local.clone_target={local.clone_target:.1%}: raise "
            "local.clone_max_steps or local.clone_episodes, or lower local.clone_noise.",
            stacklevel=2,
        )
    return history


def _clone_step(policy: Policy, optimizer: torch.optim.Optimizer, batch: list[tuple[list[int], list[int]]]) -> None:
    prompts, replies = [prompt for prompt, _ in batch], [reply for _, reply in batch]
    mask = pad_right([[1.0] * len(reply) for reply in replies], torch.float32, policy.device)
    logprobs = reply_logprobs(policy.model, prompts, replies, temperature=1.0, autocast=policy.autocast)
    loss = -(logprobs * mask).sum() / mask.sum()
    optimizer.zero_grad(set_to_none=True)
    torch.autograd.backward(loss)
    torch.nn.utils.clip_grad_norm_(policy.model.parameters(), 1.0)
    optimizer.step()


def _measure(
    policy: Policy, recipe: Recipe, vector: GroupVectorEnv, step: int
) -> tuple[float, dict[tuple[int, ...], str]]:
    """Play training tasks: the same in every call, or others with ``clone_dagger``, which learns from them.

    Returns:
        The success rate of the sampled episodes, and with ``clone_dagger`` the oracle's answer to each prompt.
    """
    section, dagger = recipe.agent_envs, recipe.local.clone_dagger
    seed = derive_seed(section.seed, "clone check", *([step] if dagger else []))
    agent = Agent(
        policy,
        section,
        recipe.local,
        temperature=recipe.local.temperature,
        row_seed=lambda row, task_id, turn: derive_seed(seed, row, turn),
    )
    player = _AskingTheOracle(agent, vector) if dagger else agent
    episodes = play(vector, player, seed=seed, split=section.split, first_group=0, watch=Stopwatch())
    answers = player.answers if isinstance(player, _AskingTheOracle) else {}
    return float(rollout_metrics(episodes)["rollout/success"]), answers


class _AskingTheOracle:
    """Plays as an agent does, and notes what the oracle would have done in its place."""

    def __init__(self, agent: Agent, vector: GroupVectorEnv) -> None:
        self._agent, self._vector = agent, vector
        self.answers: dict[tuple[int, ...], str] = {}

    def decide(self, observations: Sequence[Any], infos: Mapping[str, Any], rows: Sequence[int]) -> list[Decision]:
        walks = [_oracle(self._vector.envs[row]) for row in rows]
        decisions = self._agent.decide(observations, infos, rows)
        for walk, decision in zip(walks, decisions, strict=True):
            if walk and decision.prompt_ids:
                self.answers[tuple(decision.prompt_ids)] = walk[0]
        return decisions
