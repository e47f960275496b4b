"""A CPU backend for verl: platform, training engine and rollout by registration, for tests and tiny models.

verl knows accelerators only. With the environment variable ``VERL_PLATFORM=cpu`` the plug-in calls :func:`register`.
"""

from __future__ import annotations

import importlib

ROLLOUT = "hf_cpu"
"""Value of ``actor_rollout_ref.rollout.name``."""


def register() -> None:
    """Make the CPU platform and its rollout known to verl; calling it again is harmless."""
    from agent_envs.trainers.verl.cpu import vision

    vision.define_missing_operators()  # before anything below imports transformers' models
    from verl.workers.rollout import base
    from verl.workers.rollout.replica import RolloutReplicaRegistry

    importlib.import_module("agent_envs.trainers.verl.cpu.platform")  # registers itself
    RolloutReplicaRegistry.register(ROLLOUT, _load_replica)
    # verl has no public way to register the sender of weights.
    base._ROLLOUT_REGISTRY[ROLLOUT, "async"] = "agent_envs.trainers.verl.cpu.replica.WeightSender"


def is_registered() -> bool:
    """Return whether :func:`register` has run in this process."""
    from verl.workers.rollout.replica import RolloutReplicaRegistry

    return ROLLOUT in RolloutReplicaRegistry._registry


def _load_replica() -> type:
    from agent_envs.trainers.verl.cpu.replica import TransformersReplica

    return TransformersReplica
