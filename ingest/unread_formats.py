"""Common formats that have no reader, and what makes a file of them readable."""

from __future__ import annotations

from collections.abc import Iterable

ADVICE = {
    "convert it to Markdown, for example with pandoc": (
        ".docx",
        ".odt",
        ".rtf",
        ".epub",
        ".tex",
        ".org",
        ".ipynb",
    ),
    "save it as PDF or HTML": (".doc", ".ppt", ".pptx", ".odp", ".pages", ".key"),
    "save each sheet as CSV": (".xls", ".xlsx", ".ods", ".numbers"),
    "write one object on each line, as .jsonl": (".json",),
    "write its text with an OCR program": (".png", ".jpg", ".jpeg", ".gif", ".tif", ".tiff", ".webp", ".bmp"),
    "unpack it": (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z"),
}


def why_unread(suffix: str, readable: Iterable[str]) -> str:
    """Why a file with this suffix is not read, and what to do."""
    advice = next((advice for advice, suffixes in ADVICE.items() if suffix.lower() in suffixes), None)
    what = suffix or "names without a suffix"
    return (
        f"no reader for {what}: {advice}"
        if advice
        else f"no reader for {what}; there are: {', '.join(readable)}"
    )
