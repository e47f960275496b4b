"""A trainer to read: rollout, advantages and clipped policy gradient for any ``transformers`` causal LM, on one device.

Start with :mod:`agent_envs.trainers.local.train`, which reads from top to bottom; it needs the extra ``train``.
"""

import importlib.util

from agent_envs.errors import missing_extra

for _package in ("torch", "transformers", "tokenizers", "safetensors"):
    if importlib.util.find_spec(_package) is None:
        raise missing_extra(_package, "train")
