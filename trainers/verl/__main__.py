"""``python -m agent_envs.trainers.verl RECIPE [key=value ...]``."""

import sys

from agent_envs.trainers.verl.main import main

if __name__ == "__main__":
    sys.exit(main())
