"""Serve the shop: waitress where it is installed, else the server that comes with Flask."""

import ipaddress
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent_envs.envs.webshop.site.app import MAX_BODY_BYTES, create_app
from agent_envs.envs.webshop.site.visits import ShopSettings

NUM_THREADS = 8
_MAX_RECEIVED_BYTES = 16 * MAX_BODY_BYTES  # below it the shop itself explains that a request is too large


def is_loopback(host: str) -> bool:
    """Tell whether a host name or address is reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def serve(
    settings: ShopSettings, *, host: str = "127.0.0.1", port: int = 8080, report: Callable[[str], None] = print
) -> None:
    """Serve until interrupted.

    Args:
        settings: What every visit starts with.
        host: Address to listen on; any but a loopback address is reported with a warning.
        port: Port, 0 for a free one.
        report: Function that shows a line to the person who started the shop.

    Raises:
        ValueError: If the address cannot be used, or the folder for recordings cannot be written to.
    """
    if settings.record_dir is not None:
        _check_folder(settings.record_dir)
    local = is_loopback(host)
    app = create_app(settings, trusted_hosts=("localhost", host) if local else None)
    with _listen(host, port) as listener:
        if not local:
            report(
                f"Warning: --host {host} lets other machines reach the shop. It has no login and no encryption; "
                "leave --host out to keep it to this machine."
            )
        address = f"[{host}]" if ":" in host else host
        report(f"The shop is open at http://{address}:{listener.getsockname()[1]}/ (Ctrl-C closes it)")
        if settings.record_dir is not None:
            report(f"Visits are recorded in {settings.record_dir}")
        _run(app, listener, report)
        report("The shop is closed.")


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise ValueError(f"--port must be in [0, 65535], got {port}. 0 takes a free one.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise ValueError(
            f"cannot listen on --host {host} --port {port}: {error}. Name another port; 0 takes a free one."
        ) from None


def _check_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"cannot record in {folder}: {error}. Name another folder.") from None
    if not os.access(folder, os.W_OK):
        raise ValueError(f"cannot record in {folder}: it is not writable. Name another folder.")


def _run(app: Any, listener: socket.socket, report: Callable[[str], None]) -> None:
    """Answer requests on a socket until interrupted."""
    try:
        from waitress.server import create_server
    except ImportError:
        from werkzeug.serving import make_server

        report("Note: waitress is not installed, so Flask's development server is used (pip install waitress).")
        host, port = listener.getsockname()[:2]
        make_server(host, port, app, threaded=True, fd=listener.fileno()).serve_forever()
    else:
        create_server(
            app, sockets=[listener], threads=NUM_THREADS, ident=None, max_request_body_size=_MAX_RECEIVED_BYTES
        ).run()
