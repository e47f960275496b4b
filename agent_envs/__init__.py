"""Group-aware Gymnasium environments with canonical state keys for multi-turn LLM agents.

Importing this package registers every ``agent_envs/...`` id with Gymnasium and needs gymnasium, numpy and pillow only.
"""

from pathlib import Path as _Path

from agent_envs.core import AgentEnv, StepInfo
from agent_envs.groups import GroupEnv, GroupVectorEnv
from agent_envs.keys import register_state_key
from agent_envs.prompts import PromptBuilder
from agent_envs.records import Status, Turn
from agent_envs.registration import register_env, registered_ids
from agent_envs.spaces import FreeText
from agent_envs.tags import Parsed, TagSpec
from agent_envs.tasks import Panel, derive_seed

__version__ = "0.1.0"
__all__ = [
    "AgentEnv",
    "FreeText",
    "GroupEnv",
    "GroupVectorEnv",
    "Panel",
    "Parsed",
    "PromptBuilder",
    "Status",
    "StepInfo",
    "TagSpec",
    "Turn",
    "derive_seed",
    "register_env",
    "register_state_key",
    "registered_ids",
]

_root = _Path(__file__).resolve().parent.parent
if not (_Path(__file__).parent / "memory" / "__init__.py").is_file() and (_root / "memory").is_dir():
    __path__.append(str(_root))  # a checkout whose links were lost (Windows, some copy tools)

from agent_envs import envs as _envs  # noqa: E402

_envs.register_all()
