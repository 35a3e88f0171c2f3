"""`python -m docs.drawings` draws chord.svg, flow.svg, growth.svg and trust.svg."""

from docs.drawings import DRAWINGS, FOLDER

for name, drawing in DRAWINGS.items():
    (FOLDER / f"{name}.svg").write_text(drawing(), encoding="utf-8")
