"""Memories by name, path and entry point."""

import sys
import types
from importlib.metadata import EntryPoint

import pytest

from agent_envs.memory import Memory, WindowMemory, make_memory, memory_names, register_memory, registry


class Last(WindowMemory):
    def __init__(self):
        super().__init__(history_length=1)


@pytest.fixture
def plugin(monkeypatch):
    module = types.ModuleType("my_memories")
    module.Last = Last
    module.number = 3
    monkeypatch.setitem(sys.modules, "my_memories", module)
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    return module


def test_shipped_names():
    assert {"none", "summary", "window"} <= set(memory_names())


def test_registered_name_and_path(plugin):
    register_memory("last", "my_memories:Last")
    register_memory("last", "my_memories:Last")
    assert isinstance(make_memory("last"), Last) and isinstance(make_memory("my_memories:Last"), Last)
    assert "last" in memory_names()
    with pytest.raises(ValueError, match="registered already as my_memories:Last"):
        register_memory("last", "other:Class")
    with pytest.raises(ValueError, match="'window' is registered already"):
        register_memory("window", "my_memories:Last")


def test_entry_point(plugin, monkeypatch):
    point = EntryPoint("installed", "my_memories:Last", "agent_envs.memory")
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == "agent_envs.memory" else [])
    assert isinstance(make_memory("installed"), Last)
    assert "installed" in memory_names()


def test_unknown_name_suggests():
    with pytest.raises(ValueError, match="Unknown memory 'windw'. Did you mean 'window'\\? Known: .*none, .*window"):
        make_memory("windw")


@pytest.mark.parametrize("path", ["my_memories:Lost", "no_such_module:X", "agent_envs.nothing:X", ":X", "a b:"])
def test_path_that_leads_nowhere(plugin, path):
    with pytest.raises(ValueError, match="Give 'module:Class'"):
        make_memory(path)


def test_missing_dependency_of_a_memory_is_shown_as_it_is(tmp_path, monkeypatch):
    (tmp_path / "needs_more.py").write_text("import not_there_at_all\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="not_there_at_all"):
        make_memory("needs_more:X")


@pytest.mark.parametrize("path", ["my_memories:number", "builtins:dict"])
def test_path_of_something_else(plugin, path):
    with pytest.raises(TypeError, match="not a subclass of agent_envs.memory.Memory"):
        make_memory(path)


@pytest.mark.parametrize(
    ("name", "path", "error"),
    [("", "a:B", ValueError), ("a:b", "a:B", ValueError), ("x", "a.B", ValueError), ("x", "a:", ValueError),
     ("x", Memory, TypeError), (None, "a:B", TypeError)],
)  # fmt: skip
def test_wrong_registration(plugin, name, path, error):
    with pytest.raises(error):
        register_memory(name, path)
    assert name not in registry._REGISTRY


def test_name_must_be_text():
    with pytest.raises(TypeError, match="memory must be a name or a path 'module:Class', got 3"):
        make_memory(3)
