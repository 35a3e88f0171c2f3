"""The drawings of README and docs, each made by a script: `python -m docs.drawings`."""

from pathlib import Path

from docs.drawings import chord, flow, growth, trust

FOLDER = Path(__file__).parent
DRAWINGS = {"chord": chord.drawing, "flow": flow.drawing, "growth": growth.drawing, "trust": trust.drawing}
"""The drawings that are the same each time."""
