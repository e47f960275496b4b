"""Open the WebShop in a browser: shop as the agents do, and record what you did."""

from __future__ import annotations

import argparse
from pathlib import Path

EXAMPLES = """examples:
  agent-envs webshop serve                                    a random training task for each visit
  agent-envs webshop serve --task test:3 --port 0             one task, any free port
  agent-envs webshop serve --record visits/                   keep each visit as a trajectory
  agent-envs webshop serve --data DIR                         the official products
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the sub-command ``serve`` and its options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    serve = actions.add_parser(
        "serve",
        help="serve the shop to a browser",
        description="Serve the shop to a browser on this machine.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    serve.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1: this machine only)"
    )
    serve.add_argument("--port", type=int, default=8080, help="port, 0 for a free one (default 8080)")
    serve.add_argument("--task", metavar="SPLIT[:INDEX]", help="task of every visit (default: random training tasks)")
    serve.add_argument("--data", metavar="DIR", help="folder of the official files (default: the embedded products)")
    serve.add_argument("--record", type=Path, metavar="DIR", help="write each visit to a file in this folder")


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C; exit status 0."""
    from agent_envs.envs.webshop.catalogue import FULL_FILES, SMALL_FILES
    from agent_envs.envs.webshop.env import WebShopEnv
    from agent_envs.envs.webshop.shop import choose_shop
    from agent_envs.envs.webshop.site.serve import serve
    from agent_envs.envs.webshop.site.visits import ShopSettings

    data = None
    if args.data:
        folder = Path(args.data)
        only_full = (folder / FULL_FILES[0]).is_file() and not (folder / SMALL_FILES[0]).is_file()
        data = "full" if only_full else "small"
    choice = choose_shop(data=data, data_dir=args.data)
    split, task_index = _parse_task(args.task)
    # Refuses a task that does not exist before the shop opens, with the environment's own words.
    env = WebShopEnv(data=choice.data, data_dir=choice.data_dir)
    options = {"split": split, "task_index": task_index}
    env.reset(options={key: value for key, value in options.items() if value is not None})
    settings = ShopSettings(
        data=choice.data, data_dir=choice.data_dir, split=split, task_index=task_index, record_dir=args.record
    )
    serve(settings, host=args.host, port=args.port, report=lambda line: print(line, flush=True))
    return 0


def _parse_task(text: str | None) -> tuple[str | None, int | None]:
    """Return split and index of ``split:index`` or ``split``."""
    if text is None:
        return None, None
    split, colon, index = text.partition(":")
    if colon and not (index.isascii() and index.isdigit()):
        raise ValueError(f"--task must be SPLIT or SPLIT:INDEX such as test:3, got {text!r}.")
    return split, int(index) if colon else None
