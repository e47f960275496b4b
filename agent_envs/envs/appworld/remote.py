"""Worlds on servers that run already, such as ``appworld serve environment`` in containers: one world per server."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence

from agent_envs.envs.appworld.client import AppWorldClient, Evaluation, WorldError

_lock = threading.Lock()
_taken: set[str] = set()


class RemoteWorld:
    """A server's one world, for one environment at a time.

    Args:
        urls: Servers to choose from; the first free one is taken.
        call_timeout_s: Seconds a call may take.

    Raises:
        WorldError: All servers are taken by other environments of this process.
    """

    def __init__(self, urls: Sequence[str], call_timeout_s: float) -> None:
        with _lock:
            free = [url for url in urls if url not in _taken]
            if not free:
                raise WorldError(
                    f"All {len(urls)} AppWorld servers are in use; every member of a batch needs one of its own. "
                    "Pass as many urls as there are members."
                )
            self._url = free[0]
            _taken.add(self._url)
        self.client = AppWorldClient(self._url, timeout_s=call_timeout_s)

    def evaluate(self) -> Evaluation:
        """Run the task's tests on the server."""
        return self.client.evaluate()

    def close(self) -> None:
        """End the episode and free the server; calling it again is harmless."""
        with contextlib.suppress(WorldError):  # a server that is gone is reported by the next reset
            self.client.close_task()
        self.client.disconnect()
        with _lock:
            _taken.discard(self._url)
