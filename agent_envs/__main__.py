"""``python -m agent_envs`` is the ``agent-envs`` command."""

import sys

from agent_envs.cli import main

sys.exit(main())
