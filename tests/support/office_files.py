"""Office files that tests make or change."""

from __future__ import annotations

import zipfile
from pathlib import Path

from openpyxl import Workbook
from openpyxl.worksheet.worksheet import Worksheet


def filled(*rows: list[object]) -> tuple[Workbook, Worksheet]:
    book = Workbook()
    sheet = book.active
    assert isinstance(sheet, Worksheet)
    for row in rows:
        sheet.append(row)
    return book, sheet


def workbook(path: Path, *rows: list[object]) -> Path:
    filled(*rows)[0].save(path)
    return path


def with_part(path: Path, name: str, content: bytes) -> Path:
    """The archive with another part, or with another content of a part that it has."""
    with zipfile.ZipFile(path) as archive:
        parts = {part: archive.read(part) for part in archive.namelist()} | {name: content}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, data in parts.items():
            archive.writestr(part, data)
    return path
