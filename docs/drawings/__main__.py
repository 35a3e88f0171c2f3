"""`python -m docs.drawings`: chord.svg, flow.svg and growth.svg.  `python -m docs.drawings demo` also starts the demo for demo.svg."""

from __future__ import annotations

import sys

from docs.drawings import DRAWINGS, FOLDER

for name, drawing in DRAWINGS.items():
    (FOLDER / f"{name}.svg").write_text(drawing(), encoding="utf-8")
if "demo" in sys.argv[1:]:
    from docs.drawings.demo import write

    write(FOLDER / "demo.svg")
