"""Prefect's server without its documentation pages /docs, /redoc and /openapi.json, which need no password.

Usage: python -m korealbert.flows.services.server [--host H] [--port N | --socket FD]

It needs only Prefect, so an image of the server contains this one file of ours. Everything else is in Prefect's settings.
"""

from __future__ import annotations

import argparse
import socket
import sys
from contextlib import suppress

import uvicorn
from fastapi import FastAPI
from prefect.server.api.server import create_app
from prefect.settings import get_current_settings
from starlette.routing import Mount


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    settings = get_current_settings().server
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default=settings.api.host)
    parser.add_argument("--port", type=int, default=settings.api.port)
    parser.add_argument("--socket", type=int, help="descriptor of a listening socket, instead of host and port")
    options = parser.parse_args()
    inherited = options.socket is not None
    listening = socket.socket(fileno=options.socket) if inherited else socket.create_server((options.host, options.port))
    app = create_app(final=True)
    # The API under /api has such pages too, but they need the password. The application and the mounted UI have others.
    for part in (app, *(route.app for route in app.routes if isinstance(route, Mount) and not route.path)):
        if isinstance(part, FastAPI):
            pages = {part.docs_url, part.redoc_url, part.openapi_url, part.swagger_ui_oauth2_redirect_url}
            part.router.routes[:] = [route for route in part.routes if getattr(route, "path", None) not in pages]
    config = uvicorn.Config(
        app,
        timeout_keep_alive=settings.api.keepalive_timeout,
        log_level=settings.logging_level.lower(),
        server_header=False,
    )
    server = uvicorn.Server(config)
    with suppress(KeyboardInterrupt):
        server.run(sockets=[listening])
    if not server.started:
        sys.exit(3)  # like uvicorn itself


if __name__ == "__main__":
    main()
