"""What this package uses of verl, checked by name, so that a change of verl is named before a run fails."""

import ast
import inspect
import os
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("verl")

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def parameters(function):
    return list(inspect.signature(function).parameters)


def test_trainer_hooks():
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer

    assert parameters(PPOTrainer._compute_advantage) == ["self", "batch", "metrics"], "verl changed _compute_advantage"
    assert parameters(PPOTrainer._init_resource_pool_mgr) == ["self"], "verl changed _init_resource_pool_mgr"
    for name in ("init", "fit", "get_llm_client", "get_teacher_client", "get_reward_handles"):
        assert hasattr(PPOTrainer, name), f"verl changed PPOTrainer.{name}"


def test_run_ppo_takes_a_task_runner():
    from verl.trainer.main_ppo import run_ppo

    assert parameters(run_ppo) == ["config", "task_runner_class"], "verl changed run_ppo"


def test_estimators_are_called_by_keyword():
    from verl.trainer.ppo import ray_trainer

    source = inspect.getsource(ray_trainer.compute_advantage)
    for keyword in ("token_level_rewards", "response_mask", "config"):
        assert f'"{keyword}"' in source, f"verl changed the estimator's keyword {keyword}"


def test_agent_loop_output_and_constructor():
    from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput

    wanted = {"prompt_ids", "response_ids", "response_mask", "response_logprobs", "multi_modal_data", "reward_score"}
    wanted |= {"num_turns", "metrics", "extra_fields"}
    assert wanted <= set(AgentLoopOutput.model_fields), "verl changed AgentLoopOutput"
    assert "run" in AgentLoopBase.__abstractmethods__, "verl changed AgentLoopBase"


def test_several_outputs_share_the_last_ones_reward_info():
    from verl.trainer.ppo.v1 import agent_loop_tq

    source = inspect.getsource(agent_loop_tq)
    assert 'extra_fields["reward_extra_info"]' in source and 'f"{uid}_{session_id}_{i}"' in source


def test_token_builder():
    from verl.utils.tokenizer.continuous_token import ContinuousTokenBuilder, MergeResult

    assert parameters(ContinuousTokenBuilder.merge_context_tokens)[1:4] == [
        "previous_messages",
        "updated_messages",
        "runtime_token_ids",
    ]
    assert "images" in parameters(ContinuousTokenBuilder.build_initial_tokens)
    assert {"token_ids", "removed_prefix_token_count"} <= set(MergeResult.__dataclass_fields__)


def test_private_names_of_the_cpu_backend():
    from verl.workers.engine import EngineRegistry
    from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead
    from verl.workers.rollout.base import _ROLLOUT_REGISTRY
    from verl.workers.rollout.replica import RolloutReplicaRegistry

    assert isinstance(_ROLLOUT_REGISTRY, dict) and isinstance(RolloutReplicaRegistry._registry, dict)
    assert {"language_model", "value_model"} <= set(EngineRegistry._engines)
    assert hasattr(FSDPEngineWithLMHead, "_build_fsdp_module")


def test_dataset_arguments():
    from verl.trainer.ppo.utils import create_rl_dataset

    tree = ast.parse(textwrap.dedent(inspect.getsource(create_rl_dataset)))
    calls = [
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "dataset_cls"
    ]
    assert {keyword.arg for keyword in calls[0].keywords} == {
        "data_files",
        "tokenizer",
        "processor",
        "config",
        "max_samples",
    }, "verl changed how datasets are made"


def python(code, **environment):
    variables = {key: value for key, value in os.environ.items() if key != "VERL_PLATFORM"} | environment
    run = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr[-2000:]
    return run.stdout.split()


@pytest.mark.slow
def test_the_plugin_registers_with_the_platform_variable_only():
    code = (
        "import verl; from verl.workers.rollout.replica import RolloutReplicaRegistry as r;"
        "import sys; print('hf_cpu' in r._registry, 'agent_envs.trainers.verl.plugin' in sys.modules)"
    )
    assert python(code) == ["False", "True"]
    assert python(code, VERL_PLATFORM="cpu") == ["True", "True"]


def test_importing_the_plugin_imports_nothing_heavy():
    code = (
        "import sys, agent_envs.trainers.verl.plugin; print(*[m for m in ('torch', 'ray', 'verl') if m in sys.modules])"
    )
    assert python(code) == []


def test_estimator_refuses_another_trainer():
    import torch

    from agent_envs.trainers.verl.trainer import turn_advantages

    with pytest.raises(ValueError, match="AgentEnvsTrainer"):
        turn_advantages(token_level_rewards=torch.zeros(2, 3), response_mask=torch.ones(2, 3), index=None)


def test_estimator_is_registered_under_the_name_of_the_recipes():
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn

    from agent_envs.trainers.verl.trainer import turn_advantages

    assert get_adv_estimator_fn("agent_envs") is turn_advantages


def test_missing_and_wrong_packages_are_named(monkeypatch):
    from importlib.metadata import PackageNotFoundError

    from gymnasium.error import DependencyNotInstalled

    from agent_envs.trainers.verl import requirements

    requirements.check_verl()
    monkeypatch.setattr(requirements, "version", lambda name: "0.10.2")
    with pytest.raises(ImportError, match=r"verl >= 0.9, < 0.10, this is verl 0.10.2"):
        requirements.check_verl()

    def absent(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(requirements, "version", absent)
    with pytest.raises(DependencyNotInstalled, match=r"verl is not installed, run pip install \"agent-envs\[verl\]\""):
        requirements.check_verl()
    monkeypatch.setattr(requirements, "version", lambda name: "0.9.1")
    monkeypatch.setattr(requirements.importlib.util, "find_spec", lambda name: None if name == "transfer_queue" else 1)
    with pytest.raises(DependencyNotInstalled, match="TransferQueue is not installed"):
        requirements.check_verl()


def test_our_own_folder_must_not_pass_for_verl(monkeypatch):
    from importlib.machinery import ModuleSpec

    from agent_envs.trainers.verl import requirements

    spec = ModuleSpec("verl", None, origin=str(requirements.__file__).replace("requirements.py", "__init__.py"))
    monkeypatch.setattr(requirements.importlib.util, "find_spec", lambda name: spec)
    with pytest.raises(ImportError, match="sys.path"):
        requirements.check_verl()


def test_the_cpu_engine_overrides_what_is_there():
    from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead

    for name in ("_build_module", "_build_fsdp_module", "_merged_lora_per_tensor_param"):
        assert hasattr(FSDPEngineWithLMHead, name), f"verl changed FSDPEngine.{name}"
