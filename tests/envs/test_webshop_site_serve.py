"""The WebShop site as a program: its server, its command line, and a real browser."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flask", reason="the extra webshop (flask) is not installed")

from gymnasium.error import DependencyNotInstalled

import agent_envs.cli as cli
from agent_envs.envs.webshop.env import WebShopEnv
from agent_envs.envs.webshop.site.app import create_app
from agent_envs.envs.webshop.site.record import read_visit, replay_visit
from agent_envs.envs.webshop.site.serve import is_loopback

TASK_INDEX = 3
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
CHROMEDRIVER = shutil.which("chromedriver")
CHROMIUM_FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --window-size=1280,900"
).split()


class Server:
    """``agent-envs webshop serve`` in a process of its own."""

    def __init__(self, *arguments: str, prelude: str = "pass") -> None:
        code = f"import sys; {prelude}; from agent_envs.cli import main; sys.exit(main(sys.argv[1:]))"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, "webshop", "serve", "--port", "0", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            if address := re.search(r"open at (http://\S+)", line):
                self.url = address[1]
                return
        self.process.communicate()
        raise AssertionError(f"the shop did not open: {self.lines}")

    def stop(self) -> str:
        """Stop it as Ctrl-C does; return what it said."""
        self.process.send_signal(2)
        assert self.process.stdout is not None
        rest = self.process.stdout.read()
        self.process.stdout.close()
        self.process.wait(timeout=20)
        return "\n".join([*self.lines, rest])


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=20) as response:
        return str(response.read().decode())


# ---------------------------------------------------------------------- command line


@pytest.mark.service
@pytest.mark.parametrize("prelude", ["pass", "sys.modules['waitress'] = None"], ids=["waitress", "flask"])
def test_serve_opens_a_free_port_and_answers(tmp_path, prelude):
    hides_waitress = prelude != "pass"
    if not hides_waitress:
        pytest.importorskip("waitress", reason="waitress is not installed")
    server = Server("--task", f"test:{TASK_INDEX}", "--record", str(tmp_path / "new" / "visits"), prelude=prelude)
    try:
        assert re.fullmatch(r"http://127\.0\.0\.1:[1-9]\d*/", server.url)
        with pytest.raises(urllib.error.HTTPError, match="404"):  # no cookie is kept, so the visit is nobody's
            get(server.url)
        assert "Page not" not in get(f"{server.url}static/shop.css")
    finally:
        said = server.stop()
    assert server.process.returncode == 0 and "The shop is closed." in said
    assert ("waitress is not installed" in said) == hides_waitress and "Warning: --host" not in said
    assert (tmp_path / "new" / "visits").is_dir()


@pytest.mark.service
def test_serve_warns_about_other_machines():
    server = Server("--host", "0.0.0.0")
    assert any("Warning: --host 0.0.0.0 lets other machines reach the shop" in line for line in server.lines)
    server.stop()


def test_loopback_addresses():
    assert is_loopback("127.0.0.1") and is_loopback("::1") and is_loopback("localhost") and is_loopback("127.1.2.3")
    assert not is_loopback("0.0.0.0") and not is_loopback("::") and not is_loopback("shop.example")


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["--task", "test"], None),
        (["--task", "test:x"], "--task must be SPLIT or SPLIT:INDEX such as test:3, got 'test:x'"),
        (["--task", "test:-1"], "--task must be"),
        (["--task", "test:²"], "--task must be"),
        (["--task", "test:500"], "task_index must be in [0, 500)"),
        (["--task", "dev:0"], "Unknown split 'dev'"),
        (["--data", "nowhere"], "items_shuffle_1000.json"),
        (["--record", __file__], "cannot record in"),
        (["--port", "70000"], "--port must be in [0, 65535], got 70000"),
        (["--port", "-1"], "--port must be in [0, 65535], got -1"),
        (["--host", "not a host"], "cannot listen on --host not a host"),
    ],
)
def test_wrong_arguments_are_explained(capsys, monkeypatch, argv, text):
    monkeypatch.setattr("agent_envs.envs.webshop.site.serve._run", lambda app, listener, report: None)
    code = cli.main(["webshop", "serve", *(["--port", "0"] if "--port" not in argv else []), *argv])
    said = capsys.readouterr()
    if text is None:
        assert code == 0 and "The shop is open at" in said.out
    else:
        assert code == 2 and text in said.err and "open at" not in said.out


def test_a_port_in_use_is_named(capsys):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        assert cli.main(["webshop", "serve", "--port", port]) == 2
    assert f"--port {port}" in capsys.readouterr().err


def test_without_flask_the_extra_is_named(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "flask", None)
    with pytest.raises(DependencyNotInstalled, match=r'pip install "agent-envs\[webshop\]"'):
        create_app()
    assert cli.main(["webshop", "serve", "--port", "0"]) == 2
    assert 'pip install "agent-envs[webshop]"' in capsys.readouterr().err


# ---------------------------------------------------------------------- a real browser


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    server = Server("--task", f"test:{TASK_INDEX}", "--record", str(tmp_path / "visits"))
    yield server.url, tmp_path / "visits"
    server.stop()


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Any]:
    if CHROMIUM is None or CHROMEDRIVER is None:
        pytest.skip("chromium and chromium-driver are not installed (apt-get install chromium chromium-driver)")
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed (extra dev)")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*CHROMIUM_FLAGS, f"--user-data-dir={tmp_path / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = Service(CHROMEDRIVER, env={**os.environ, "SE_OFFLINE": "true"})
    driver = webdriver.Chrome(options=options, service=service)
    driver.set_page_load_timeout(60)
    yield driver
    driver.quit()


class Keyboard:
    """A person without a mouse: types, tabs to what is needed and presses Enter."""

    MAX_TABS = 80

    def __init__(self, driver: Any) -> None:
        from selenium.webdriver.common.by import By
        from selenium.webdriver.common.keys import Keys
        from selenium.webdriver.support.ui import WebDriverWait

        self.driver, self.keys, self.by = driver, Keys, By
        self.wait = WebDriverWait(driver, 30)

    @property
    def text(self) -> str:
        return str(self.driver.find_element(self.by.TAG_NAME, "body").text)

    def go(self, *keys: str) -> None:
        """Send keys that lead to another page, and wait for it."""
        before = self.driver.current_url
        self.driver.switch_to.active_element.send_keys(*keys)
        self.wait.until(lambda driver: driver.current_url != before)
        self.wait.until(lambda driver: driver.execute_script("return document.readyState") == "complete")

    def tab_to(self, action: str) -> None:
        for _ in range(self.MAX_TABS):
            if self.driver.switch_to.active_element.get_attribute("value") == action:
                return
            self.driver.switch_to.active_element.send_keys(self.keys.TAB)
        raise AssertionError(f"{action} is not reached by the Tab key")

    def press(self, action: str) -> None:
        self.tab_to(action)
        assert self.driver.execute_script("return getComputedStyle(document.activeElement).cursor") == "pointer"
        self.go(self.keys.ENTER)


@pytest.mark.service
def test_chromium_shops_by_keyboard(shop, browser):
    url, folder = shop
    env = WebShopEnv()
    _, info = env.reset(options={"split": "test", "task_index": TASK_INDEX})
    actions = env.example_actions()
    browser.get(url)
    person = Keyboard(browser)
    assert info["task"] in person.text
    person.go(actions[0][len("search[") : -1], person.keys.ENTER)  # the search box has the focus
    assert "50 products" in person.text
    pictures = browser.find_elements(person.by.CSS_SELECTOR, ".card img")
    person.wait.until(lambda driver: driver.execute_script("return arguments[0].naturalWidth", pictures[0]) > 0)
    for action in actions[1:]:
        person.press(action)
        chosen = browser.find_elements(person.by.CSS_SELECTOR, '[aria-pressed="true"]')
        if chosen and action != "click[buy now]":
            assert browser.switch_to.active_element.get_attribute("value") == action  # the focus stays where it was
    assert "Exactly what was asked for" in person.text

    (path,) = folder.iterdir()
    assert [turn.action for turn in read_visit(path)[1]] == actions
    assert replay_visit(path)[-1].turn.score == 1.0
    assert browser.get_log("browser") == []  # no policy violated, nothing missing, no script error
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
    asked = [request["request"]["url"] for request in sent if request["documentURL"].startswith(url)]
    assert len(asked) > len(actions) and all(address.startswith(url) for address in asked)


@pytest.mark.service
def test_chromium_fits_a_phone_and_follows_the_dark_setting(shop, browser):
    url, _ = shop
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True}
    )
    person = Keyboard(browser)
    browser.get(url)
    widths = [browser.execute_script("return document.documentElement.scrollWidth")]
    person.go("women's turtleneck sweaters", person.keys.ENTER)
    for part in (".cover", "[value='click[features]']", "[value='click[< prev]']", "[value='click[buy now]']", None):
        widths.append(browser.execute_script("return document.documentElement.scrollWidth"))
        if part is not None:
            browser.execute_script("arguments[0].focus()", browser.find_element(person.by.CSS_SELECTOR, part))
            person.go(person.keys.ENTER)
    assert "How the score adds up" in person.text and max(widths) <= 360
    colours = []
    for scheme in ("light", "dark"):
        browser.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        )
        script = "return getComputedStyle(document.body).backgroundColor"
        colours.append(sum(map(int, re.findall(r"\d+", browser.execute_script(script))[:3])))
    assert colours[0] > 600 > 150 > colours[1]
