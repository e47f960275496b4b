"""What agent code cannot do in a world, tried without AppWorld's own checks: only the kernel stands in the way."""

import os
import platform
import struct
import sys
from pathlib import Path

import pytest
from appworld_fake_env import FakeAppWorldEnv, make_data

from agent_envs.envs.appworld import pool as pools
from agent_envs.envs.appworld.server import sandbox

pytestmark = [pytest.mark.service, pytest.mark.filterwarnings("ignore:This kernel lacks")]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    root = Path(make_data(tmp_path_factory.mktemp("sandbox")))
    config = pools.PoolConfig(
        python=sys.executable,
        data=str(root / "data"),
        warm_task="aa_1",
        engine=FakeAppWorldEnv.ENGINE,
        memory_mb=256,
        call_timeout_s=20,
    )
    pool = pools.WorldPool(config)
    world = pool.start_world("aa_1")
    world.client.initialize("aa_1", {"timeout_seconds": 10})
    yield world
    world.close()
    pool.close()


def needs(layer):
    """Skip where the kernel does not offer a layer; the launcher warns and doctor says so there."""
    return pytest.mark.usefixtures(f"_{layer}")


@pytest.fixture
def _landlock(world):
    _skip_without(world, "landlock")


@pytest.fixture
def _seccomp(world):
    _skip_without(world, "seccomp")


def _skip_without(world, layer):
    if not any(have.split()[0] == layer for have in world._pool.layers):
        pytest.skip(f"this kernel offers no {layer}")


def tried(world, code):
    return world.client.execute(f"try:\n  print({code})\nexcept BaseException as e:\n  print(type(e).__name__)").output


@needs("landlock")
@pytest.mark.parametrize("path", ["/etc/passwd", "~/.bashrc", "/proc/1/environ", __file__])
def test_files_of_the_host_cannot_be_read(world, path):
    path = os.path.expanduser(path)
    assert tried(world, f"open({path!r}).read(1)") in ("PermissionError\n", "FileNotFoundError\n")


@needs("landlock")
@pytest.mark.parametrize("folder", ["/", "/tmp", os.path.expanduser("~"), str(Path(__file__).parent)])
def test_folders_of_the_host_cannot_be_listed_or_written(world, folder):
    assert tried(world, f"__import__('os').listdir({folder!r})") == "PermissionError\n"
    target = os.path.join(folder, "agent_envs_escape")
    assert tried(world, f"open({target!r}, 'w')") == "PermissionError\n" and not os.path.exists(target)


@needs("landlock")
@pytest.mark.parametrize("name", ["ground_truth/private_data.json", "oracle.json"])
def test_tests_answers_and_solutions_cannot_be_read(world, name):
    task = Path(world._pool.config.data, "tasks", "aa_1")
    assert (task / name).exists() and tried(world, f"open({str(task / name)!r}).read()") == "PermissionError\n"
    assert tried(world, f"len(open({str(task / 'specs.json')!r}).read()) > 0") == "True\n"


@needs("landlock")
def test_task_data_cannot_be_changed(world):
    specs = Path(world._pool.config.data, "tasks", "aa_1", "specs.json")
    before = specs.read_text()
    assert tried(world, f"open({str(specs)!r}, 'w')") == "PermissionError\n"
    assert tried(world, f"__import__('os').remove({str(specs)!r})") == "PermissionError\n"
    assert specs.read_text() == before


def test_home_is_the_worlds_own_empty_folder(world):
    assert tried(world, "__import__('os').listdir(__import__('os').path.expanduser('~'))") == "[]\n"
    assert tried(world, "open('note.txt', 'w').write('x')") == "1\n"
    assert tried(world, "__import__('os').remove('note.txt')") == "None\n"


@needs("seccomp")
@pytest.mark.parametrize(
    "code",
    [
        "__import__('socket').socket()",
        "__import__('socket').create_connection(('127.0.0.1', 22), 1)",
        "__import__('urllib.request').request.urlopen('http://127.0.0.1/', timeout=1)",
        "__import__('os').fork()",
        "__import__('subprocess').run(['true'])",
        "__import__('os').execv('/bin/true', ['true'])",
        "__import__('os').posix_spawn('/bin/true', ['true'], {})",
        "__import__('multiprocessing').get_context('fork').Process(target=print).start()",
        "__import__('os').kill(__import__('os').getppid(), 9)",
        "__import__('os').pidfd_open(__import__('os').getppid())",
    ],
)
def test_network_processes_and_signals_fail(world, code):
    assert tried(world, code) in ("PermissionError\n", "URLError\n")


@needs("seccomp")
def test_a_fork_bomb_makes_no_process(world):
    lines = ("import os", "made = 0", "for _ in range(1000):", " try: made += bool(os.fork())", " except OSError: pass")
    bomb = "\n".join((*lines, "print(made)"))
    assert world.client.execute(bomb).output == "0\n"
    assert not Path(f"/proc/{world.pid}/task/{world.pid}/children").read_text().split()


def test_memory_is_limited(world):
    assert tried(world, "len(bytearray(1 << 30))") == "MemoryError\n"
    assert tried(world, "'alive'") == "alive\n"


def test_a_large_file_is_refused(world):
    code = "f = open('big', 'wb')\nfor _ in range(70): f.write(bytes(1 << 20))"
    assert "OSError" in world.client.execute(code).output or "File too large" in world.client.execute(code).output
    world.client.execute("import os\nf.close() if 'f' in dir() else None\nos.remove('big')")


def test_no_secret_of_the_parent_is_inherited(world, monkeypatch):
    names = tried(world, "sorted(__import__('os').environ)")
    assert "TOKEN" not in names and "KEY" not in names and "PWD" not in names


def test_a_world_has_no_privileges(world):
    status = Path(f"/proc/{world.pid}/status").read_text()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert int(fields["CapEff"], 16) == 0 and int(fields["CapBnd"], 16) == 0 and fields["NoNewPrivs"] == "1"


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_names_the_right_calls(machine):
    code = sandbox.seccomp_program(machine)
    lines = [struct.unpack("=HBBI", code[at : at + 8]) for at in range(0, len(code), 8)]
    compared = {k for op, _, _, k in lines if op == 0x15}
    execve, socket, openat = {"x86_64": (59, 41, 257), "aarch64": (221, 198, 56)}[machine]
    assert {execve, socket} <= compared and openat not in compared
    assert lines[-1] == (0x06, 0, 0, 0x7FFF0000)
    targets = [at + 1 + jump for at, (op, yes, no, _) in enumerate(lines) for jump in (yes, no) if op & 7 == 5]
    assert max(targets) < len(lines)


def test_an_unknown_machine_has_no_filter():
    assert platform.machine()
    with pytest.raises(KeyError):
        sandbox.seccomp_program("riscv64")
