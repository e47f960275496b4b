"""The official files behind the environment: odd products, changed files, ``agent-envs data webshop``."""

import json
import os
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agent_envs.cli import main
from agent_envs.downloads import DownloadError
from agent_envs.envs.webshop import data, shop
from agent_envs.envs.webshop.env import WebShopEnv

OFFICIAL_FORMAT = Path(__file__).parents[1] / "data" / "webshop" / "catalogue_a"
COLOURS = [{"value": f"shade {letter}"} for letter in "abcdefgh"]
ODD: list[dict[str, Any]] = [
    {"name": "", "full_description": "", "small_description": [], "query": "empty"},
    {"name": "Lamp <script>alert(1)</script> & more", "full_description": "<b>bold</b>", "query": "markup"},
    {"name": "日本 ランプ É\U0001f4a1", "small_description": ["", "née"], "query": "unicode"},
    {"name": "Lamp " * 3_000, "full_description": "word " * 20_000, "pricing": "$1,299.00", "query": "long"},
    {"name": "Brackets [new]", "customization_options": {"Size": [{"value": "a[b]c"}, {"value": "[x]"}]}, "query": "b"},
    {"name": "No options", "customization_options": "", "pricing": "$3$9", "query": "plain"},
    {"name": "Same", "customization_options": {"A": [{"value": "buy now"}], "B": [{"value": "x"}]}, "query": "button"},
]


@pytest.fixture(autouse=True)
def own_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("WEBSHOP_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def write_shop(folder: Path, odd: list[dict[str, Any]], *, small: bool = True) -> Path:
    """Write odd products first, then 70 plain ones with 8 goals each."""
    plain = [
        {"name": f"Table lamp {n}", "query": "lamps", "customization_options": {"Color": COLOURS}} for n in range(70)
    ]
    products = [{"asin": f"B{n:04d}", "category": "garden", **record} for n, record in enumerate([*odd, *plain])]
    wish = {"attributes": ["bright"], "instruction": "find me a bright lamp", "instruction_attributes": ["bright"]}
    names = (
        ("items_shuffle_1000.json", "items_ins_v2_1000.json") if small else ("items_shuffle.json", "items_ins_v2.json")
    )
    for name, content in zip(names, (products, {record["asin"]: wish for record in products}), strict=True):
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return folder


# The environment on files


@pytest.mark.parametrize("number", range(len(ODD)))
def test_odd_products_can_be_looked_at_and_bought(tmp_path: Path, number: int) -> None:
    env = WebShopEnv(data_dir=str(write_shop(tmp_path, ODD)), nouns="rule")
    env.reset(seed=0)
    observation, _, _, _, info = env.step(f"search[<q> {ODD[number]['query']}]")
    assert "Total results: 1)" in observation
    for action in (f"click[b{number:04d}]", "click[description]", "click[< prev]", "click[features]", "click[< prev]"):
        observation, _, _, _, info = env.step(action)
        assert info["action_is_valid"] and observation in env.observation_space
    for action in info["admissible_actions"][6:]:
        assert env.step(action)[4]["action_is_valid"]
    _, _, terminated, _, info = env.step("click[buy now]")
    assert terminated and 0.0 <= info["score"] <= 1.0


def test_markup_in_product_texts_stays_text(tmp_path: Path) -> None:
    env = WebShopEnv(data_dir=str(write_shop(tmp_path, ODD)), nouns="rule")
    env.reset(seed=0)
    assert "Lamp <script>alert(1)</script> & more" in env.step("search[<q> markup]")[0]


def test_the_example_actions_leave_out_what_cannot_be_bought(tmp_path: Path) -> None:
    env = WebShopEnv(data_dir=str(write_shop(tmp_path, ODD)), nouns="rule")
    walks = []
    for split in ("train", "test"):
        for index in range(env.num_tasks(split)):
            env.reset(options={"split": split, "task_index": index})
            walks.append(env.example_actions())
    assert all(walk[-1] == "click[buy now]" for walk in walks if walk)
    assert sum(map(bool, walks)) == len(walks)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("", "is not complete JSON"),
        ('[{"asin": "B1", "name": "La', "is not complete JSON"),
        ('[{"asin": "B1", "name": 3}]', r"product 0 \(asin 'B1'\): 'name' must be text, got 3"),
        ('[{"name": "Lamp"}]', "product 0: 'asin' must be text"),
        ('[{"asin": "B1", "customization_options": {"Color": [3]}}]', "'customization_options' must be"),
        ('[{"asin": "B1"}]', "gives no synthetic goal"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, content: str, text: str) -> None:
    (tmp_path / "items_shuffle_1000.json").write_text(content, encoding="utf-8")
    (tmp_path / "items_ins_v2_1000.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match=text):
        WebShopEnv(data_dir=str(tmp_path))


def test_the_variable_names_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBSHOP_DATA", str(OFFICIAL_FORMAT))
    env = WebShopEnv(nouns="rule")
    assert len(env.engine.catalogue) == 311
    assert env.splits() == {"train": 650, "test": 500}
    assert len(WebShopEnv(data="generated").engine.catalogue) == 1_665


def test_changed_files_are_read_anew(tmp_path: Path) -> None:
    first = WebShopEnv(data_dir=str(write_shop(tmp_path, ODD)), nouns="rule")
    assert WebShopEnv(data_dir=str(tmp_path), nouns="rule").engine is first.engine
    second = WebShopEnv(data_dir=str(write_shop(tmp_path, ODD[:2])), nouns="rule")
    assert len(second.engine.catalogue) == len(first.engine.catalogue) - 5
    assert second.fingerprint("test") != first.fingerprint("test")


def test_the_index_of_the_full_set_is_kept_on_disk_and_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_shop(tmp_path, ODD, small=False)
    tasks = []
    for _ in range(2):
        shop._open.cache_clear()
        env = WebShopEnv(data="full", data_dir=str(folder))
        assert env.engine.nouns.source == "rule"
        env.reset(seed=0)
        tasks.append(env.step("search[table lamp]")[0])
    assert tasks[0] == tasks[1]
    (kept,) = shop.cache_folder().iterdir()
    before = os.stat(kept / "meta.json").st_mtime_ns
    shop._open.cache_clear()
    WebShopEnv(data="full", data_dir=str(folder))
    assert os.stat(kept / "meta.json").st_mtime_ns == before


@pytest.mark.slow
def test_nouns_of_spacy_are_taken_for_official_products_where_it_is_installed(tmp_path: Path) -> None:
    pytest.importorskip("spacy")
    env = WebShopEnv(data_dir=str(write_shop(tmp_path, [])), num_products=70)
    env.reset(seed=0)
    assert env._info()["noun_source"] == "spacy" and env._info()["noun_agreement"] == 1.0
    assert WebShopEnv(data_dir=str(tmp_path), nouns="rule").fingerprint() != env.fingerprint()


# agent-envs data webshop: check


def official(monkeypatch: pytest.MonkeyPatch, products: int, goals: int, human: int) -> None:
    monkeypatch.setattr(data, "NUM_SMALL_PRODUCTS", products)
    monkeypatch.setattr(data, "NUM_SMALL_GOALS", goals)
    monkeypatch.setattr(data, "NUM_HUMAN_GOALS", human)


def test_counts_of_the_official_files_are_the_published_ones() -> None:
    assert (data.NUM_SMALL_PRODUCTS, data.NUM_SMALL_GOALS) == (1_000, 6_910)
    assert (data.NUM_FULL_PRODUCTS, data.NUM_HUMAN_GOALS) == (1_181_436, 12_087)


def test_a_check_counts_and_compares(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["data", "webshop", "--path", str(OFFICIAL_FORMAT)]) == 1
    shown = capsys.readouterr().out
    assert "311      1,000  differs" in shown and "1,150      6,910  differs" in shown and "103     12,087" in shown
    assert "agent-envs data webshop --download" in shown
    official(monkeypatch, 311, 1_150, 103)
    monkeypatch.setenv("WEBSHOP_DATA", str(OFFICIAL_FORMAT))
    assert main(["data", "webshop"]) == 0
    assert "Complete." in capsys.readouterr().out


def test_a_check_of_the_full_set_reads_every_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_shop(tmp_path, [], small=False)
    monkeypatch.setattr(data, "NUM_FULL_PRODUCTS", 70)
    assert main(["data", "webshop", "--path", str(tmp_path)]) == 0
    path = tmp_path / "items_shuffle.json"
    path.write_bytes(path.read_bytes()[:-30])
    assert main(["data", "webshop", "--path", str(tmp_path)]) == 2
    assert "items_shuffle.json is not complete JSON" in capsys.readouterr().err
    (tmp_path / "items_ins_v2.json").unlink()
    assert main(["data", "webshop", "--path", str(tmp_path)]) == 2
    assert "items_ins_v2.json is missing beside items_shuffle.json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "Pass --path DIR or set WEBSHOP_DATA"),
        (["--path", "/nowhere"], "/nowhere/items_shuffle_1000.json"),
        (["--path", "/nowhere", "--full"], "--full goes with --download"),
    ],
)
def test_wrong_arguments_of_the_command_are_named(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "webshop", *arguments]) == 2
    assert text in capsys.readouterr().err


def test_human_instructions_of_a_wrong_shape_are_named(tmp_path: Path) -> None:
    write_shop(tmp_path, [])
    (tmp_path / "items_human_ins.json").write_text('{"B1": [3]}', encoding="utf-8")
    with pytest.raises(ValueError, match="instructions of 'B1' must be a list of objects"):
        list(data.count_files(tmp_path))


# agent-envs data webshop: download


class Drive(BaseHTTPRequestHandler):
    """Serves the test catalogue under the official ids; ``mood`` decides how."""

    mood = ""
    log: list[str]

    def do_GET(self) -> None:
        name = next(name for name, key in data.DRIVE_IDS.items() if key in self.path)
        content = (OFFICIAL_FORMAT / name).read_bytes()
        wanted = self.headers.get("Range")
        type(self).log.append(f"{name} {wanted}")
        if type(self).mood == "page":
            self._send(200, b"<html>quota</html>", "text/html")
        elif type(self).mood == "gone":
            self._send(404, b"", "text/plain")
        elif type(self).mood == "broken":
            self._send(503, b"", "text/plain")
        elif type(self).mood == "short" and not wanted:
            self._send(200, content[:1000], "application/json", length=len(content))
        elif wanted and type(self).mood != "no ranges":
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                self._send(416, b"", "text/plain")
            else:
                self._send(206, content[start:], "application/json")
        else:
            self._send(200, content, "application/json")

    def _send(self, status: int, body: bytes, kind: str, *, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def drive(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Drive]]:
    monkeypatch.setattr(Drive, "mood", "")
    monkeypatch.setattr(Drive, "log", [], raising=False)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Drive)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setattr(data, "_ADDRESS", f"http://127.0.0.1:{server.server_port}/{{id}}")
    yield Drive
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.service
def test_a_download_fetches_the_files_once_and_checks_them(
    drive: type[Drive], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    official(monkeypatch, 311, 1_150, 103)
    for _ in range(2):
        assert main(["data", "webshop", "--download", "--path", str(tmp_path / "new")]) == 0
    assert len(drive.log) == 3
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted(
        path.name for path in OFFICIAL_FORMAT.iterdir()
    )
    for path in OFFICIAL_FORMAT.iterdir():
        assert (tmp_path / "new" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.service
@pytest.mark.parametrize("mood", ["short", "no ranges", ""])
def test_a_broken_download_goes_on(drive: type[Drive], tmp_path: Path, mood: str) -> None:
    name = "items_ins_v2_1000.json"
    if mood != "short":
        (tmp_path / f"{name}.part").write_bytes((OFFICIAL_FORMAT / name).read_bytes()[:500])
    drive.mood = mood
    path = data.download(name, tmp_path, retry_after_s=0.0)
    assert path.read_bytes() == (OFFICIAL_FORMAT / name).read_bytes()
    assert drive.log[-1] == f"{name} bytes={1000 if mood == 'short' else 500}-"
    assert not (tmp_path / f"{name}.part").exists()


@pytest.mark.service
def test_a_download_that_was_complete_is_taken(drive: type[Drive], tmp_path: Path) -> None:
    name = "items_ins_v2_1000.json"
    shutil.copy(OFFICIAL_FORMAT / name, tmp_path / f"{name}.part")
    assert data.download(name, tmp_path).is_file()


@pytest.mark.service
@pytest.mark.parametrize(
    ("mood", "text"),
    [("page", "the server sent a web page"), ("gone", "HTTP 404"), ("broken", "HTTP Error 503.*Try again later")],
)
def test_a_refused_download_says_how_to_do_it_by_hand(drive: type[Drive], tmp_path: Path, mood: str, text: str) -> None:
    drive.mood = mood
    with pytest.raises(DownloadError, match=f"{text}.*Open https://drive.google.com/file/d/.* in a browser"):
        data.download("items_human_ins.json", tmp_path, retry_after_s=0.0)
    assert not (tmp_path / "items_human_ins.json").exists()
