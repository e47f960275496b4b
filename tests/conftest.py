"""Settings that every test needs: no model hub, no spinning OpenMP threads, helper modules on the path."""

import os
import signal
import sys
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# On sys.path, not only imported: spawned workers get the parent's path and import toy_envs by name.
sys.path.insert(0, str(Path(__file__).parent / "helpers"))
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # Started in the background of a script: servers that tests start would ignore Ctrl-C too, and never end.
    signal.signal(signal.SIGINT, signal.default_int_handler)

_ALFWORLD_DATA = os.environ.get("ALFWORLD_DATA")


@pytest.fixture(autouse=True)
def alfworld_data_as_the_user_set_it():
    """Importing the package alfworld sets ALFWORLD_DATA, which the processes that later tests start would inherit."""
    _restore_alfworld_data()
    yield
    _restore_alfworld_data()


def _restore_alfworld_data():
    os.environ.pop("ALFWORLD_DATA", None)
    if _ALFWORLD_DATA is not None:
        os.environ["ALFWORLD_DATA"] = _ALFWORLD_DATA


@pytest.fixture
def toys():
    """Register toys/Shop-v0 and toys/Grid-v0 for one test; the tests over all ids must not see them."""
    import gymnasium as gym
    import toy_envs

    toy_envs.register()
    yield
    for env_id in ("toys/Shop-v0", "toys/Grid-v0"):
        del gym.registry[env_id]
