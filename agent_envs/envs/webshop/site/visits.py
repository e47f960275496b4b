"""Visits to the shop: which exist, whose they are, what happened in them."""

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_envs.envs.webshop.env import WebShopEnv
from agent_envs.envs.webshop.session import MAX_QUERY_LENGTH, Session
from agent_envs.envs.webshop.site.record import Recorder

MAX_TURNS = 100
"""Actions of a visit; people look around more than the 15 turns of an agent."""
MAX_VISITS = 256
"""Open visits of all shoppers."""
MAX_VISITS_PER_SHOPPER = 8
IDLE_LIMIT_S = 2 * 60 * 60
"""A visit without a request for so long is closed."""
_ID_BYTES = 24


class ShopFullError(RuntimeError):
    """As many visits are open as the shop allows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ShopSettings:
    """What every visit starts with."""

    data: str = "generated"
    """Which products, as the environment's argument says it."""
    data_dir: str | None = None
    """Folder of the official files."""
    split: str | None = None
    """Split of the task, None for the environment's own."""
    task_index: int | None = None
    """Index of the task, None for a random one in each visit."""
    record_dir: Path | None = None
    """Folder for recordings, None for none."""
    max_turns: int = MAX_TURNS
    """Actions of a visit."""


class Visit:
    """One shopper with one task: the environment itself, so that the site follows its rules to the letter."""

    def __init__(self, settings: ShopSettings) -> None:
        self.id = secrets.token_urlsafe(_ID_BYTES)
        self.lock = threading.Lock()
        """Held while a request uses the visit."""
        self.env = WebShopEnv(data=settings.data, data_dir=settings.data_dir, max_turns=settings.max_turns)
        options: dict[str, Any] = {} if settings.split is None else {"split": settings.split}
        if settings.task_index is not None:
            options["task_index"] = settings.task_index
        _, self.info = self.env.reset(options=options)
        self.is_over = False
        self.recorder = Recorder(self.env, self.info, data=settings.data, folder=settings.record_dir)

    @property
    def session(self) -> Session:
        """The shop's pages as this shopper sees them."""
        return self.env.session

    @property
    def turn(self) -> int:
        """Actions so far."""
        return int(self.info["turn"])

    def act(self, action: str) -> None:
        """Carry out an action of `offers` or `search_action` and record it."""
        before = self.info["state_key"]
        _, reward, terminated, truncated, self.info = self.env.step(action)
        self.is_over = terminated or truncated
        self.recorder.add(action, before, self.info, reward=reward, terminated=terminated, truncated=truncated)

    def offers(self, action: str) -> bool:
        """Tell whether the page has this click."""
        return not self.is_over and action.startswith("click[") and action in self.session.available_actions()


def search_action(query: str) -> str | None:
    """Return the search action for what a person typed, None if there is nothing to search for.

    Brackets and line breaks would end the action's argument; the search ignores them anyway.
    """
    words = " ".join(query.replace("[", " ").replace("]", " ").split())[:MAX_QUERY_LENGTH].strip()
    return f"search[{words}]" if words else None


class Visits:
    """All open visits; safe for threads.

    A visit is found by its id and its shopper's id together. Both are random, so nobody finds another's visit.
    """

    def __init__(self, settings: ShopSettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Open an empty shop.

        Args:
            settings: What every visit starts with.
            clock: Function that returns seconds.
        """
        self.settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[str, tuple[str, Visit]] = {}  # by visit id: shopper id and visit, least recently used first
        self._last_use: dict[str, float] = {}

    def __len__(self) -> int:
        """Return the number of open visits."""
        return len(self._open)

    def start(self, shopper: str | None) -> tuple[str, Visit]:
        """Start a visit; return the shopper's id with it.

        An id that has no open visit is not taken over: the shopper gets a new one. Of a shopper with too many visits
        the one left longest is closed.

        Raises:
            ShopFullError: If all shoppers together have too many.
        """
        with self._lock:
            self._close_idle()
            own = [visit_id for visit_id, (owner, _) in self._open.items() if owner == shopper]
            if len(own) >= MAX_VISITS_PER_SHOPPER:
                self._close(own[0])
            if len(self._open) >= MAX_VISITS:
                raise ShopFullError(f"{MAX_VISITS} visits are open, the most this shop allows. Come back later.")
            owner = shopper if shopper and own else secrets.token_urlsafe(_ID_BYTES)
            visit = Visit(self.settings)
            self._open[visit.id] = owner, visit
            self._last_use[visit.id] = self._clock()
        return owner, visit

    def get(self, visit_id: str, shopper: str | None) -> Visit | None:
        """Return a shopper's visit, None if there is no such visit or it is another's."""
        with self._lock:
            self._close_idle()
            owner, visit = self._open.get(visit_id, ("", None))
            if visit is None or not shopper or not secrets.compare_digest(owner.encode(), shopper.encode()):
                return None
            self._open[visit_id] = self._open.pop(visit_id)
            self._last_use[visit_id] = self._clock()
            return visit

    def latest(self, shopper: str | None) -> Visit | None:
        """Return the visit a shopper used last, None without one."""
        with self._lock:
            self._close_idle()
            return next((visit for owner, visit in reversed(self._open.values()) if owner == shopper), None)

    def _close_idle(self) -> None:
        now = self._clock()
        for visit_id in list(self._open):  # least recently used first
            if now - self._last_use[visit_id] <= IDLE_LIMIT_S:
                break
            self._close(visit_id)

    def _close(self, visit_id: str) -> None:
        del self._open[visit_id], self._last_use[visit_id]
