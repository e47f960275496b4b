"""Write docs/envs/<Name>.md from the docstrings of the registered environments (``--check`` only compares)."""

from __future__ import annotations

import argparse
import inspect
import sys
from pathlib import Path

import gymnasium as gym

from agent_envs.registration import group_settings, load_class, registered_ids

PAGES = Path(__file__).resolve().parent / "envs"


def page(env_id: str) -> str:
    """Return the Markdown page of one id."""
    spec = gym.spec(env_id)
    cls = load_class(str(spec.kwargs["env_class"]))
    text = inspect.cleandoc(cls.__doc__ or "")
    settings = group_settings(spec.kwargs["env_class"], {}, executor=spec.kwargs.get("executor"))
    snapshot = "yes" if cls.SUPPORTS_SNAPSHOT else "no"
    facts = (
        f"| id | turns | executor | snapshots | state version |\n|---|---|---|---|---|\n"
        f"| `{env_id}` | {spec.kwargs['max_turns']} | {settings['executor']} | {snapshot} | {cls.STATE_VERSION} |\n"
    )
    return f"# {env_id}\n\n{facts}\n{text}\n"


def main() -> int:
    """Write or compare the pages; exit status 1 if one is out of date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail if a page is out of date")
    check = parser.parse_args().check
    PAGES.mkdir(exist_ok=True)
    stale = []
    for env_id in registered_ids():
        path = PAGES / f"{env_id.rpartition('/')[2].rpartition('-')[0]}.md"
        text = page(env_id)
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(path.name)
        if not check:
            path.write_text(text, encoding="utf-8")
    print(f"{'out of date' if check else 'written'}: {', '.join(stale) or 'none'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
