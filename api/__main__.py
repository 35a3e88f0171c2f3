"""`python -m api [--host HOST] [--port PORT]`: serve the HTTP API, without the console."""

from __future__ import annotations

import argparse

from api.app import create_app
from api.serving import serve

parser = argparse.ArgumentParser(prog="python -m api", description="Serve the HTTP API.")
parser.add_argument("--host", default="127.0.0.1")
parser.add_argument("--port", type=int, default=8000)
arguments = parser.parse_args()
serve(create_app, host=arguments.host, port=arguments.port)
