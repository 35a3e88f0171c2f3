"""The server process: uvicorn with this API."""

from __future__ import annotations

import socket

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp

from api.app import create_app
from config.logging import set_up_logging
from config.settings import Settings, load_settings


def uvicorn_config(app: ASGIApp, settings: Settings, *, host: str, port: int) -> uvicorn.Config:
    """A server that is told to stop ends its open calls after `soft_shutdown_s`."""
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=round(settings.soft_shutdown_s),
    )


class Server(uvicorn.Server):
    """Tells the application when it begins to stop, so that the calls that wait are answered."""

    def __init__(self, app: FastAPI, settings: Settings, *, host: str, port: int) -> None:
        super().__init__(uvicorn_config(app, settings, host=host, port=port))
        self._closing = app.state.closing

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._closing.begin()
        await super().shutdown(sockets)


def serve(*, host: str = "127.0.0.1", port: int = 8000) -> None:
    """Serve until SIGTERM or SIGINT.  Raises WrongDeclaration."""
    settings = load_settings()
    set_up_logging(level=settings.log_level, log_format=settings.log_format, texts=settings.log_texts)
    Server(create_app(settings), settings, host=host, port=port).run()
