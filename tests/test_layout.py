"""The checkout: links, bare names, light imports, the wheel's contents."""

import importlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NAMES = ["memory", "retriever", "trainers"]


@pytest.mark.parametrize("name", NAMES)
def test_subpackage_imports_under_its_own_name(name):
    assert importlib.import_module(f"agent_envs.{name}").__name__ == f"agent_envs.{name}"


@pytest.mark.parametrize("name", NAMES)
def test_links_are_relative(name):
    link = ROOT / "agent_envs" / name
    if not link.is_symlink():
        pytest.skip("this checkout has no links (test_checkout_without_links_still_imports covers it)")
    assert link.readlink() == Path("..") / name


@pytest.mark.parametrize("name", NAMES)
def test_bare_name_is_refused(name):
    done = subprocess.run([sys.executable, "-c", f"import {name}"], capture_output=True, text=True, cwd=ROOT)
    assert f"import agent_envs.{name}, not {name}" in done.stderr


def test_checkout_without_links_still_imports(tmp_path):
    copy = tmp_path / "checkout"
    for name in ("agent_envs", *NAMES):
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in NAMES:
        link = copy / "agent_envs" / name
        if link.is_symlink():
            link.unlink()
    code = "import agent_envs.trainers as t, agent_envs.memory as m; print(t.__name__, m.__name__, t.__file__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=copy)
    assert done.stdout.split()[:2] == ["agent_envs.trainers", "agent_envs.memory"], done.stderr
    assert str(copy) in done.stdout


def test_import_needs_only_the_base_dependencies():
    """F7: importing the package loads no extra, and never the old ``gym``."""
    code = (
        "import sys; import agent_envs; import gymnasium as gym;"
        "from agent_envs.registration import load_class;"
        "classes = {i: load_class(gym.spec(i).kwargs['env_class']) for i in agent_envs.registered_ids()};"
        "[gym.make(i).close() for i, c in classes.items() if not c.unavailable()];"
        "print(sorted(m for m in ('torch','transformers','gym','flask','faiss','verl','ray','yaml','rich','matplotlib',"
        "'alfworld','textworld','sentence_transformers','hypothesis') if m in sys.modules))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_no_source_imports_old_gym():
    for folder in ("agent_envs", *NAMES):
        for path in (ROOT / folder).rglob("*.py"):
            for line in path.read_text(encoding="utf-8").splitlines():
                words = line.split()
                assert words[:2] not in (["import", "gym"], ["from", "gym"]), f"{path}: {line}"


@pytest.mark.slow
def test_wheel_holds_the_linked_packages(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ROOT],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for name in NAMES:
        assert f"agent_envs/{name}/__init__.py" in names
    assert any(name.endswith(".yaml") for name in names), "recipes are missing from the wheel"
    assert "agent_envs/py.typed" in names
