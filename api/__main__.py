"""`python -m api [--host HOST] [--port PORT]`: serve the HTTP API."""

from __future__ import annotations

import argparse

from api.serving import serve

parser = argparse.ArgumentParser(prog="python -m api", description="Serve the HTTP API.")
parser.add_argument("--host", default="127.0.0.1")
parser.add_argument("--port", type=int, default=8000)
arguments = parser.parse_args()
serve(host=arguments.host, port=arguments.port)
