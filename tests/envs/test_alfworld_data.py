"""The data folder of official games: selection, counts, cache, and the download. All files here are generated ones."""

import hashlib
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
import types
import warnings
import zipfile
from collections import Counter
from pathlib import Path

import gymnasium as gym
import pytest

import agent_envs  # noqa: F401 - registers the ids
from agent_envs import cli, downloads
from agent_envs.downloads import Archive, DownloadError, fetch, unzip
from agent_envs.envs.alfworld import data
from agent_envs.envs.alfworld.env import ALFWorldEnv
from agent_envs.envs.alfworld.game import GameFileError
from agent_envs.envs.alfworld.generator import GameSpec, generate_games
from agent_envs.envs.alfworld.generator_tables import TASK_TYPES
from agent_envs.envs.alfworld.tasksets import GeneratedTasks, open_tasks

ROOT = Path(__file__).parents[2]
REAL = Path(os.environ.get("AGENT_ENVS_ALFWORLD_DATA", ROOT.parent / "shared" / "data" / "alfworld_valid_unseen_12"))
MANIFEST = data.MANIFEST
SEEDS = {"train": (1, 2), "valid_seen": (3,), "valid_unseen": (4,)}


def specs(split):
    return [GameSpec(seed=seed, task_type=kind, size="small") for kind in TASK_TYPES for seed in SEEDS[split]]


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """A complete copy in the official layout, of 12 + 6 + 6 games."""
    root = tmp_path_factory.mktemp("alfworld")
    for split in SEEDS:
        generate_games(root / "json_2.1.1" / split, specs(split))
    return root


@pytest.fixture
def copy(written, tmp_path):
    """A copy to break."""
    return Path(shutil.copytree(written, tmp_path / "data"))


@pytest.fixture(autouse=True)
def own_settings(monkeypatch, tmp_path):
    """A cache folder and a manifest of our own; no variable of the user's; nothing remembered."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(data.ENV_VARIABLE, raising=False)
    counts = {split: dict(Counter(spec.task_type for spec in specs(split))) for split in SEEDS}
    monkeypatch.setattr(data, "MANIFEST", counts)
    data.load_split.cache_clear()
    yield
    data.load_split.cache_clear()


def games(root, split="valid_unseen"):
    return sorted((root / "json_2.1.1" / split).glob("*/*/game.tw-pddl"))


def edit(path, change):
    content = json.loads(path.read_bytes())
    change(content)
    path.write_text(json.dumps(content))


def trial_name(path):
    return path.parent.relative_to(path.parents[2]).as_posix()


def run_command(capsys, *argv):
    code = cli.main(["data", "alfworld", *map(str, argv)])
    out = capsys.readouterr()
    return code, out.out, out.err


# ---------------------------------------------------------------------- selection


def test_selection_rule_of_alfworld(copy):
    folder = copy / "json_2.1.1" / "valid_unseen"
    chosen = games(copy)
    edit(chosen[0], lambda content: content.update(solvable=False))
    edit(chosen[1], lambda content: content.pop("solvable"))
    chosen[2].write_text("{")
    chosen[3].unlink()
    movable = folder / "pick_and_place_with_movable_recep-Apple-Bowl-Fridge-3" / "trial_1"
    sliced = folder / "pick_heat_then_place_in_recep-AppleSliced-None-Fridge-3" / "trial_1"
    for other in (movable, sliced):
        shutil.copytree(chosen[4].parent, other)
    (folder / "notes.txt").write_text("no game")
    index = data.index_split(folder)
    assert [game.name for game in index.games] == [trial_name(path) for path in chosen[4:]]
    assert index.skipped == {
        data.UNSOLVABLE: (trial_name(chosen[0]),),
        data.NO_KEY: (trial_name(chosen[1]),),
        data.DAMAGED: (trial_name(chosen[2]),),
        data.NO_GAME: (trial_name(chosen[3]),),
        data.OTHER: tuple(sorted(path.relative_to(folder).as_posix() for path in (movable, sliced))),
    }


@pytest.mark.parametrize("text", ["", "[]", "null", '{"solvable": true}', "\0\0", "[" * 100_000])
def test_damaged_files_are_told_apart_from_games(copy, text):
    games(copy)[0].write_text(text)
    index = data.index_split(copy / "json_2.1.1" / "valid_unseen")
    assert index.skipped == {data.DAMAGED: (trial_name(games(copy)[0]),)}


@pytest.mark.parametrize("depth", ["json_2.1.1/valid_seen", "json_2.1.1", ""])
def test_layouts_that_are_found(written, depth):
    env = ALFWorldEnv(data_dir=str(written / depth), split="valid_seen")
    assert env.num_tasks() == 6
    _, info = env.reset(options={"task_index": 0})
    assert info["task_id"] == f"alfworld/valid_seen/{trial_name(games(written, 'valid_seen')[0])}"
    assert {"train", "test"} <= set(env.splits())


def test_newest_of_several_releases_is_taken(copy):
    shutil.copytree(copy / "json_2.1.1", copy / "json_2.1.3")
    assert data.find_folder(copy).path == copy / "json_2.1.3"


def test_a3_tasks_do_not_depend_on_the_order_of_files(written, monkeypatch):
    env = ALFWorldEnv(data_dir=str(written))
    names = [env.task_name("train", index) for index in range(12)]
    fingerprint = env.fingerprint("train")
    walk = os.walk

    def backwards(top, **options):
        for root, folders, files in walk(top, **options):
            folders.sort(reverse=True)
            yield root, folders, files[::-1]

    monkeypatch.setattr(os, "walk", backwards)
    data.load_split.cache_clear()
    other = ALFWorldEnv(data_dir=str(written))
    assert [other.task_name("train", index) for index in range(12)] == names == sorted(names)
    assert other.fingerprint("train") == fingerprint


def test_fingerprint_follows_what_is_played_not_the_bytes_of_the_file(copy):
    def fingerprint():
        data.load_split.cache_clear()
        return ALFWorldEnv(data_dir=str(copy)).fingerprint("valid_unseen")

    before = fingerprint()
    edit(games(copy)[0], lambda content: content.update(walkthrough=None, pddl_domain="other release"))
    assert fingerprint() == before
    edit(games(copy)[0], lambda content: content.update(pddl_problem=content["pddl_problem"] + " "))
    assert fingerprint() != before


# ---------------------------------------------------------------------- counts (F2)


def test_f2_game_without_the_key_is_named(copy):
    edit(games(copy)[2], lambda content: content.pop("solvable"))
    with pytest.raises(ValueError, match="5 games, the official valid_unseen has 6") as error:
        ALFWorldEnv(data_dir=str(copy), split="valid_unseen").num_tasks()
    assert f"{data.NO_KEY}: {trial_name(games(copy)[2])}" in str(error.value)
    assert "agent-envs data alfworld --download" in str(error.value)


def test_f2_missing_folder_is_told_by_its_type(copy):
    shutil.rmtree(games(copy)[0].parents[1])
    with pytest.raises(ValueError, match="0 instead of 1"):
        ALFWorldEnv(data_dir=str(copy)).num_tasks("test")


def test_other_splits_of_a_faulty_copy_can_be_played(copy):
    games(copy)[0].unlink()
    assert ALFWorldEnv(data_dir=str(copy)).num_tasks("valid_seen") == 6


def test_an_own_collection_plays_what_is_there_and_names_the_rest(copy):
    folder = copy / "json_2.1.1" / "valid_unseen"
    games(copy)[0].write_text("{")
    with pytest.warns(UserWarning, match=f"left out:\n  {data.DAMAGED}: {trial_name(games(copy)[0])}"):
        env = ALFWorldEnv(data_dir=str(folder), split="valid_unseen")
        assert env.num_tasks() == 5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ALFWorldEnv(data_dir=str(folder), split="valid_unseen").num_tasks() == 5, "said once"


def test_check_command_reports_complete_copies(written, capsys):
    code, out, _ = run_command(capsys, "--path", written)
    assert code == 0 and "Complete." in out and f"data_dir={str(written / 'json_2.1.1')!r}" in out
    code, out, _ = run_command(capsys, "--path", written / "json_2.1.1" / "train")
    assert code == 0 and "No full copy" in out


def test_check_command_names_what_is_missing(copy, capsys):
    missing = games(copy)[1]
    missing.unlink()
    edit(games(copy, "valid_seen")[0], lambda content: content.update(solvable=False))
    code, out, _ = run_command(capsys, "--path", copy)
    assert code == 1
    assert f"{data.NO_GAME}: {trial_name(missing)}" in out
    assert f"{data.UNSOLVABLE}: {trial_name(games(copy, 'valid_seen')[0])}" in out


# ---------------------------------------------------------------------- bad folders


def test_missing_and_empty_folders_name_the_command(tmp_path, capsys):
    for folder, text in ((tmp_path / "nowhere", "There is no folder"), (tmp_path, "holds no games")):
        with pytest.raises(FileNotFoundError, match=text) as error:
            ALFWorldEnv(data_dir=str(folder))
        assert str(folder) in str(error.value) and "agent-envs data alfworld --download" in str(error.value)
        code, _, err = run_command(capsys, "--path", folder)
        assert code == 2 and text in err


def test_folder_without_a_playable_game(copy):
    for path in games(copy):
        path.write_text("{")
    with pytest.raises(ValueError, match="holds no playable game") as error:
        ALFWorldEnv(data_dir=str(copy / "json_2.1.1" / "valid_unseen"), split="valid_unseen").num_tasks()
    assert str(error.value).count(data.DAMAGED) == 6


def test_game_that_cannot_be_parsed_is_named_and_others_go_on(copy):
    broken = games(copy)[0]
    edit(broken, lambda content: content.update(pddl_problem=content["pddl_problem"][:2000]))
    env = ALFWorldEnv(data_dir=str(copy), split="valid_unseen")
    with pytest.raises(GameFileError, match="never closed") as error:
        env.reset(options={"task_index": 0})
    assert str(broken) in str(error.value)
    env.reset(options={"task_index": 1})
    assert env.example_actions()


# ---------------------------------------------------------------------- which folder


def test_variable_is_respected_and_the_argument_wins(written, copy, monkeypatch):
    monkeypatch.setenv(data.ENV_VARIABLE, str(written))
    assert ALFWorldEnv().num_tasks("train") == 12
    assert ALFWorldEnv(data_dir=str(copy / "json_2.1.1" / "valid_seen")).num_tasks("train") == 6
    assert ALFWorldEnv(data_dir="generated").num_tasks("train") == 3553
    assert ALFWorldEnv(size="small").num_tasks("train") == 3553


def test_wrong_variable_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv(data.ENV_VARIABLE, str(tmp_path / "gone"))
    with pytest.raises(FileNotFoundError, match="environment variable ALFWORLD_DATA.*data_dir='generated'"):
        ALFWorldEnv()
    monkeypatch.setenv(data.ENV_VARIABLE, "")
    assert ALFWorldEnv().num_tasks("train") == 3553


def test_size_is_for_generated_games(written):
    with pytest.raises(ValueError, match="size='small' is for generated games"):
        ALFWorldEnv(data_dir=str(written), size="small")


# ---------------------------------------------------------------------- read-only folders and the index (E4, E6)


def content_of(root):
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in root.rglob("*") if path.is_file()}


def test_e4_read_only_folder_serves_two_runs_at_once(copy, tmp_path):
    before = content_of(copy)
    for path in (copy, *copy.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    code = (
        "import sys; from agent_envs.envs.alfworld import data; from agent_envs.envs.alfworld.env import ALFWorldEnv\n"
        "data.MANIFEST = {split: {} for split in data.SPLITS}; data.difference = lambda split, index: ''\n"
        "env = ALFWorldEnv(data_dir=sys.argv[1]); print(env.reset(seed=1)[1]['state_key'], env.fingerprint())"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    runs = [
        subprocess.Popen([sys.executable, "-c", code, str(copy)], stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(2)
    ]
    outputs = [run.communicate(timeout=60)[0] for run in runs]
    assert outputs[0] == outputs[1] != "" and [run.returncode for run in runs] == [0, 0]
    for path in (copy, *copy.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    assert content_of(copy) == before


def test_e6_index_is_kept_between_processes_and_files_are_read_again_only_after_a_change(copy, monkeypatch):
    folder = copy / "json_2.1.1" / "train"
    read = []
    original = data._read_game
    monkeypatch.setattr(data, "_read_game", lambda *arguments: read.append(arguments) or original(*arguments))
    first = data.index_split(folder)
    assert len(read) == 12
    assert data.index_split(folder) == first and len(read) == 12
    edit(games(copy, "train")[0], lambda content: content.update(solvable=False))
    assert len(data.index_split(folder).games) == 11 and len(read) == 24


def test_e6_members_of_one_process_share_the_index(written, monkeypatch):
    scans = []
    original = data._scan
    monkeypatch.setattr(data, "_scan", lambda folder: scans.append(folder) or original(folder))
    for _ in range(4):
        ALFWorldEnv(data_dir=str(written)).reset(options={"task_index": 3})
    assert scans == [written / "json_2.1.1" / "train"], "the split that is played, once"


def test_e6_reset_asks_no_oracle(written, monkeypatch):
    def refuse(engine):
        raise AssertionError("an oracle ran although nobody asked for it")

    monkeypatch.setattr("agent_envs.envs.alfworld.oracle.plan", refuse)
    for env in (ALFWorldEnv(data_dir=str(written)), ALFWorldEnv(size="small")):
        env.reset(seed=0)
        env.step("look")


@pytest.mark.parametrize("text", ["", "{}", '{"format": 1, "signature": "x", "games": [], "skipped": {}}', "[1]"])
def test_damaged_cache_is_made_again(written, text):
    folder = written / "json_2.1.1" / "train"
    index = data.index_split(folder)
    (cache,) = data.cache_folder().iterdir()
    good = cache.read_bytes()
    cache.write_text(text)
    assert data.index_split(folder) == index
    assert cache.read_bytes() == good


def test_cache_folder_that_cannot_be_written_is_done_without(written, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert len(data.index_split(written / "json_2.1.1" / "train").games) == 12


# ---------------------------------------------------------------------- download


class Server(http.server.BaseHTTPRequestHandler):
    """Serves bytes by path; `cut_after` ends a connection early, `ranges` says whether it can resume."""

    files: dict = {}
    cut_after = None
    ranges = True
    requests: list = []

    def do_GET(self):
        wanted = self.headers.get("Range")
        type(self).requests.append((self.path, wanted))
        body = self.files.get(self.path)
        if body is None:
            self.send_error(404)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.ranges else 0
        if start >= len(body):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        part = body[start:]
        if self.cut_after is not None:
            part, type(self).cut_after = part[: self.cut_after], None
        self.wfile.write(part)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    handler = type("Handler", (Server,), {"files": {}, "requests": []})
    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    handler.address = f"http://127.0.0.1:{httpd.server_port}"
    yield handler
    httpd.shutdown()
    httpd.server_close()
    thread.join()


BODY = bytes(range(256)) * 40


def archive_of(server, body=BODY, name="games.zip"):
    server.files[f"/{name}"] = body
    return Archive(url=f"{server.address}/{name}", size_bytes=len(body), sha256=hashlib.sha256(body).hexdigest())


@pytest.mark.service
def test_download_arrives_whole_and_is_not_fetched_twice(server, tmp_path, capsys):
    archive = archive_of(server)
    path = fetch(archive, tmp_path / "new")
    assert path.read_bytes() == BODY and [file.name for file in path.parent.iterdir()] == ["games.zip"]
    assert fetch(archive, tmp_path / "new") == path and len(server.requests) == 1
    assert "games.zip [" in capsys.readouterr().err


@pytest.mark.service
def test_download_goes_on_after_a_break(server, tmp_path):
    archive = archive_of(server)
    server.cut_after = 1000
    assert fetch(archive, tmp_path, retry_after_s=0.0).read_bytes() == BODY
    assert server.requests == [("/games.zip", None), ("/games.zip", "bytes=1000-")]


@pytest.mark.service
def test_download_of_an_earlier_run_is_resumed(server, tmp_path):
    archive = archive_of(server)
    (tmp_path / "games.zip.part").write_bytes(BODY[:9000])
    assert fetch(archive, tmp_path).read_bytes() == BODY
    assert server.requests == [("/games.zip", "bytes=9000-")]


@pytest.mark.service
def test_download_starts_over_where_the_server_cannot_resume(server, tmp_path):
    archive = archive_of(server)
    server.ranges = False
    (tmp_path / "games.zip.part").write_bytes(b"x" * 9000)
    assert fetch(archive, tmp_path).read_bytes() == BODY


@pytest.mark.service
@pytest.mark.parametrize("served", [BODY[:-1] + b"?", BODY + b"more"])
def test_another_file_is_refused_and_not_kept(server, tmp_path, served):
    archive = archive_of(server)
    server.files["/games.zip"] = served
    with pytest.raises(DownloadError, match="is not the expected file"):
        fetch(archive, tmp_path)
    assert list(tmp_path.glob("games*")) == []


@pytest.mark.service
def test_shorter_file_at_the_server_gives_an_error_not_a_loop(server, tmp_path):
    archive = archive_of(server)
    server.files["/games.zip"] = BODY[:5000]
    with pytest.raises(DownloadError, match="goes on from .* of 10,240 bytes"):
        fetch(archive, tmp_path, retry_after_s=0.0)
    assert not (tmp_path / "games.zip").exists()


@pytest.mark.service
def test_missing_file_and_server_are_named(server, tmp_path):
    archive = archive_of(server)
    server.files.clear()
    with pytest.raises(DownloadError, match="games.zip cannot be fetched: HTTP 404"):
        fetch(archive, tmp_path)
    gone = Archive(url="http://127.0.0.1:9/games.zip", size_bytes=1, sha256="")
    with pytest.raises(DownloadError, match="Check the network"):
        fetch(gone, tmp_path, retry_after_s=0.0)


@pytest.fixture
def zipped(written, tmp_path):
    """The official layout as two archives: games, and trajectories."""
    found = {}
    for name, keep in (("tw-pddl.zip", "game.tw-pddl"), ("json.zip", "traj_data.json")):
        with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as file:
            for path in sorted(written.rglob(keep)):
                file.write(path, path.relative_to(written))
        found[name] = (tmp_path / name).read_bytes()
    return found


@pytest.mark.service
def test_download_command_fetches_unpacks_and_checks(server, zipped, tmp_path, monkeypatch, capsys):
    archives = tuple(archive_of(server, body, name) for name, body in zipped.items())
    monkeypatch.setattr(data, "ARCHIVES", archives)
    target = tmp_path / "fetched"
    code, out, _ = run_command(capsys, "--download", "--path", target)
    assert code == 0 and "Complete." in out
    assert [path.name for path in target.iterdir()] == ["json_2.1.1"], "archives are removed"
    env = ALFWorldEnv(data_dir=str(target), goal_text="human")
    env.reset(options={"split": "test", "task_index": 0})
    for action in env.example_actions():
        _, reward, _, _, _ = env.step(action)
    assert reward == 10.0


@pytest.mark.service
def test_download_command_without_network_ends_with_a_message(monkeypatch, tmp_path, capsys):
    gone = Archive(url="http://127.0.0.1:9/games.zip", size_bytes=1, sha256="")
    monkeypatch.setattr(data, "ARCHIVES", (gone,))
    monkeypatch.setattr(downloads.time, "sleep", lambda seconds: None)
    code, _, err = run_command(capsys, "--download", "--path", tmp_path)
    assert code == 2 and "cannot be fetched" in err and "Traceback" not in err


def test_unpacking_again_keeps_whole_files_and_mends_others(zipped, tmp_path):
    (tmp_path / "a.zip").write_bytes(zipped["tw-pddl.zip"])
    assert unzip(tmp_path / "a.zip", tmp_path / "out") == 24
    first, second = sorted((tmp_path / "out").rglob("game.tw-pddl"))[:2]
    whole, time = second.read_bytes(), first.stat().st_mtime_ns
    second.write_bytes(whole[:10])
    unzip(tmp_path / "a.zip", tmp_path / "out")
    assert second.read_bytes() == whole and first.stat().st_mtime_ns == time
    assert not list((tmp_path / "out").rglob(".*"))


@pytest.mark.parametrize("name", ["../evil.txt", "/evil.txt", "a/../../evil.txt", "c:\\evil.txt"])
def test_archive_that_leaves_its_folder_is_refused(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr(name, "x")
    with pytest.raises(DownloadError, match="outside its folder"):
        unzip(tmp_path / "a.zip", tmp_path / "out")
    assert not list(tmp_path.rglob("evil*"))


def test_broken_archive_is_named(tmp_path):
    (tmp_path / "a.zip").write_bytes(b"PK\3\4 no zip")
    with pytest.raises(DownloadError, match="a.zip is no complete zip file"):
        unzip(tmp_path / "a.zip", tmp_path / "out")


# ---------------------------------------------------------------------- official games, where they are


@pytest.fixture
def real(monkeypatch):
    """The folder of official games."""
    if not REAL.is_dir():
        pytest.skip(f"no official games below {REAL}, set AGENT_ENVS_ALFWORLD_DATA")
    monkeypatch.setattr(data, "MANIFEST", MANIFEST)
    return str(REAL)


def test_official_games_load_and_win(real):
    env = gym.make("agent_envs/ALFWorld-v0", data_dir=real).unwrapped
    seen = set()
    for index in range(env.num_tasks("test")):
        _, info = env.reset(options={"split": "test", "task_index": index})
        assert not info["success"]
        seen.add(info["task_id"])
        for action in env.example_actions():
            _, reward, terminated, _, info = env.step(action)
        assert terminated and reward == 10.0 and info["success"], info["task_id"]
    assert len(seen) == env.num_tasks("test")


def test_official_games_are_told_in_both_grammars_and_in_peoples_words(real):
    old = ALFWorldEnv(data_dir=real, grammar="0.3", goal_text="human")
    text, info = old.reset(options={"split": "test", "task_index": 0})
    assert text.endswith(f"Your task is to: {info['task']}.")
    new = ALFWorldEnv(data_dir=real)
    plain = new.reset(options={"split": "test", "task_index": 0})[1]
    assert plain["task"] != info["task"] and plain["state_key"] == info["state_key"]
    assert old.fingerprint("test") != new.fingerprint("test")
    for action in old.example_actions():
        _, _, terminated, _, info = old.step(action)
    assert terminated and info["grammar_version"] == "0.3"


def test_a_variable_that_importing_alfworld_has_set_is_no_choice_of_the_user(tmp_path, monkeypatch):
    """The package names ~/.cache/alfworld by itself, games or not; only then is an empty folder no error."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path / ".cache" / "alfworld"))
    for name in [name for name in sys.modules if name.partition(".")[0] == "alfworld"]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(FileNotFoundError, match="ALFWORLD_DATA"):
        open_tasks("full", None)
    monkeypatch.setitem(sys.modules, "alfworld", types.ModuleType("alfworld"))
    assert isinstance(open_tasks("full", None), GeneratedTasks)
