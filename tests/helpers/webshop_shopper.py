"""A shopper of the WebShop site for tests: Flask's test client with eyes for buttons."""

import functools
import html
import re
from typing import Any

from agent_envs.envs.webshop.env import WebShopEnv

BUTTON = re.compile(r'<button[^>]*name="action"[^>]*value="([^"]*)"([^>]*)>', re.DOTALL)


class Shopper:
    """A browser without scripts: follows redirects, knows the buttons of its page."""

    def __init__(self, app: Any) -> None:
        self.client = app.test_client()
        self.page, self.url, self.status = "", "", 0

    def take(self, response: Any) -> str:
        self.page, self.url, self.status = response.get_data(as_text=True), response.request.path, response.status_code
        return self.page

    def open(self, url: str = "/", **kwargs: Any) -> str:
        return self.take(self.client.get(url, follow_redirects=True, **kwargs))

    def send(self, data: dict[str, str], *, url: str | None = None) -> str:
        return self.take(self.client.post(url or self.url, data=data, follow_redirects=True))

    def search(self, words: str) -> str:
        return self.send({"query": words})

    def press(self, action: str) -> str:
        assert action in self.buttons(), f"{action} is not on the page, which has {list(self.buttons())}"
        return self.send({"action": action})

    def buttons(self) -> dict[str, str]:
        """Return actions with the rest of their tags."""
        return {html.unescape(action): rest for action, rest in BUTTON.findall(self.page)}

    @property
    def text(self) -> str:
        return html.unescape(re.sub(r"<[^>]+>", " ", self.page))

    @property
    def turn(self) -> int:
        return int(self.url.rsplit("/", 1)[1])


@functools.lru_cache
def oracle(index: int) -> list[str]:
    env = WebShopEnv()
    env.reset(options={"split": "test", "task_index": index})
    return env.example_actions()


def walk(shopper: Shopper, actions: list[str]) -> None:
    for action in actions:
        if action.startswith("search["):
            shopper.search(action[len("search[") : -1])
        else:
            shopper.press(action)
