"""`python -m cli`."""

from __future__ import annotations

from cli.app import run

if __name__ == "__main__":
    run()
