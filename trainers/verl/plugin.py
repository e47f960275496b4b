"""Entry point of the group ``verl.plugins``: run by every ``import verl``, in the driver and in all Ray actors.

It does nothing unless ``VERL_PLATFORM=cpu`` asks for the CPU backend.
"""

import os

if os.environ.get("VERL_PLATFORM") == "cpu":
    from agent_envs.trainers.verl.cpu import register

    register()
