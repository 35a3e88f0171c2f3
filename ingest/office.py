"""What Word, PowerPoint and Excel files have in common: a ZIP archive of XML parts, and lines that become Markdown."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import IO, Any
from urllib.parse import unquote
from xml.etree import ElementTree

from ingest.clean import read_bytes
from ingest.collection_rows import properties_as_metadata
from ingest.headings import escaped_line
from ingest.raw_documents import Fault, OpenFile, ReadOptions, Unreadable
from models.not_indexed import NotIndexed

_OLE = bytes.fromhex("d0cf11e0a1b11ae1")
"""The beginning of a file in the form before Office 2007, which is also that of a file with a password."""
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_PROLOG_BYTES = 65_536
_DUBLIN_CORE = {"dc": "http://purl.org/dc/elements/1.1/", "dcterms": "http://purl.org/dc/terms/"}

_ROOT_RELATIONS = "_rels/.rels"
_CONTENT_TYPES = "[Content_Types].xml"
RELATIONS = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/")
_TRANSITIONAL = rb"http://schemas.openxmlformats.org/\1/2006/"

_MOST_PARTS = 10_000
_MOST_NAMES = 1_000
_FREE_BYTES = 1_000_000
_MOST_TIMES = 100
"""Beyond `_FREE_BYTES` a part may claim at most this many times its size in the archive.  Real parts claim up to about 20 times."""

PartOf = Callable[[str], bytes | None]
"""Reads a part by the name of a relation to it; None if there is no such part in the file."""


@dataclass(frozen=True, slots=True)
class Package:
    """A file that is safe to hand to its library, with the document's own properties."""

    content: io.BytesIO
    title: str
    metadata: dict[str, Any]
    faults: list[Fault]


def package_of(file: OpenFile, options: ReadOptions) -> Package:
    """Raises Unreadable for locked, old and damaged files, and for those with macros or entities.

    The sizes that parts claim are checked before a part is unpacked, which gives no more than them.
    """
    raw = read_bytes(file, max_bytes=options.max_file_bytes)
    if raw.startswith(_OLE):
        old = "in the form before Office 2007; save it as .docx, .pptx or .xlsx"
        raise Unreadable(NotIndexed.MALFORMED, "locked with a password" if _ENCRYPTED in raw else old)
    content = io.BytesIO(raw)
    try:
        with zipfile.ZipFile(content) as archive:
            _check_parts(archive, len(raw))
            content = _readable(archive, content)
            core = "docProps/core.xml"
            properties = archive.read(core) if core in archive.namelist() else b"<none/>"
    except zipfile.BadZipFile as error:
        raise Unreadable(NotIndexed.MALFORMED, f"damaged: {error}") from None
    tree = ElementTree.fromstring(properties)  # noqa: S314  in the parser's process, and without entities
    title, author, created, modified = (
        tree.findtext(name, "", _DUBLIN_CORE) or ""
        for name in ("dc:title", "dc:creator", "dcterms:created", "dcterms:modified")
    )
    dates = {"created_at": created, "modified_at": modified}
    return Package(content, title.strip(), *properties_as_metadata(author, dates, options.fields))


def _check_parts(archive: zipfile.ZipFile, file_bytes: int) -> None:
    if len(parts := archive.infolist()) > _MOST_PARTS:
        why = f"it has {len(parts):,} parts, of at most {_MOST_PARTS:,}"
        raise Unreadable(NotIndexed.OVER_LIMIT, why)
    for part in parts:
        packed = min(part.compress_size, file_bytes)
        if part.file_size > max(_FREE_BYTES, _MOST_TIMES * packed):
            claim = f"{part.filename} claims {part.file_size:,} bytes in {packed:,}"
            raise Unreadable(NotIndexed.OVER_LIMIT, f"{claim}, more than {_MOST_TIMES} times as many")
        if part.filename.endswith("vbaProject.bin"):
            raise Unreadable(NotIndexed.MALFORMED, "it has macros; save it without them")
        if part.filename.endswith((".xml", ".rels")):
            with archive.open(part) as content:
                # The format allows no declaration of a document type, and entities need one.
                if b"<!DOCTYPE" in content.read(_PROLOG_BYTES).replace(b"\0", b""):
                    raise Unreadable(
                        NotIndexed.MALFORMED, f"{part.filename} declares entities or a document type"
                    )


def _readable(archive: zipfile.ZipFile, content: io.BytesIO) -> io.BytesIO:
    """The archive without mentions of parts that it lacks, and in the transitional form of the format's names.

    Office opens such files, and the libraries do not.
    """
    names = {name.casefold() for name in archive.namelist()}
    changed: dict[str, bytes] = {}
    is_strict = (
        b"purl.oclc.org/ooxml" in archive.read(_ROOT_RELATIONS)
        if _ROOT_RELATIONS in archive.namelist()
        else False
    )
    for name in archive.namelist():
        if name.endswith(".rels") or name == _CONTENT_TYPES:
            folder = posixpath.dirname(posixpath.dirname(name))
            tree = _tree(archive, name)
            dangling = [each for each in tree if (part := _target(each, folder)) and part not in names]
            for each in dangling:
                tree.remove(each)
            if dangling:
                changed[name] = ElementTree.tostring(tree)
        if is_strict and name.endswith((".xml", ".rels")):
            changed[name] = _STRICT.sub(_TRANSITIONAL, changed.get(name) or archive.read(name))
    return _changed(archive, changed) if changed else content


def _changed(archive: zipfile.ZipFile, changed: Mapping[str, bytes]) -> io.BytesIO:
    with zipfile.ZipFile(copy := io.BytesIO(), "w") as repaired:
        for name in archive.namelist():
            repaired.writestr(name, changed.get(name) or archive.read(name))
    return copy


def _target(relation: ElementTree.Element, folder: str) -> str | None:
    """The name of the part that a relation, or the type of a part, is about; None if it leads out of the archive."""
    if relation.get("TargetMode") == "External":
        return None
    target = unquote(relation.get("Target") or relation.get("PartName") or "").partition("#")[0]
    return posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/").casefold() if target else None


class SheetParts:
    """The parts of a workbook by the names of its sheets.

    `content` is the workbook without the names of cells if there are thousands, because openpyxl takes a tenth of a millisecond for
    each of them.
    """

    def __init__(self, content: io.BytesIO) -> None:
        self._archive = zipfile.ZipFile(content)
        self._names = {name.casefold(): name for name in self._archive.namelist()}
        book = next(part for kind, part in self._relations("").values() if kind.endswith("/officeDocument"))
        parts = self._relations(book)
        tree = _tree(self._archive, book)
        sheets = [each for each in tree.iter() if each.tag.endswith("}sheet")]
        self._parts = {each.get("name", ""): parts[each.get(f"{RELATIONS}id", "")][1] for each in sheets}
        if len(sheets) > len(own := {*self._parts.values()}):
            why = f"it claims {len(sheets):,} sheets, and has {len(own):,} parts for them"
            raise Unreadable(NotIndexed.OVER_LIMIT, why)
        self._read: set[str] = set()
        self.content, names = content, tree.find("{*}definedNames")
        if names is not None and len(names) > _MOST_NAMES:
            tree.remove(names)
            self.content = _changed(self._archive, {book: ElementTree.tostring(tree)})

    def open(self, sheet: str) -> IO[bytes]:
        return self._archive.open(self._parts[sheet])

    def drawings(self, sheet: str) -> Iterator[tuple[ElementTree.Element, PartOf]]:
        """The drawings of a sheet, each with a function that reads the parts that the drawing names.  Each part is read once."""
        for kind, part in self._relations(self._parts[sheet]).values():
            if kind.endswith("/drawing") and (content := self._once(part)):
                yield parsed(content), partial(self._named, self._relations(part))

    def _named(self, relations: Mapping[str, tuple[str, str]], name: str) -> bytes | None:
        return self._once(relations[name][1]) if name in relations else None

    def _once(self, part: str) -> bytes | None:
        if part in self._read:
            return None
        self._read.add(part)
        return self._archive.read(part)

    def _relations(self, part: str) -> dict[str, tuple[str, str]]:
        """The kind and the part of each relation inside the archive, by its name."""
        folder, name = posixpath.split(part)
        own = self._names.get(posixpath.join(folder, f"_rels/{name}.rels").casefold())
        relations: dict[str, tuple[str, str]] = {}
        for each in _tree(self._archive, own) if own else ():
            if (target := self._names.get(_target(each, folder) or "")) is not None:
                relations[each.get("Id", "")] = each.get("Type", ""), target
        return relations


def _tree(archive: zipfile.ZipFile, name: str) -> ElementTree.Element:
    return parsed(archive.read(name))


def parsed(content: bytes) -> ElementTree.Element:
    """The XML of a part, whatever its name is.  Raises Unreadable if it declares a document type."""
    if b"<!DOCTYPE" in content[:_PROLOG_BYTES].replace(b"\0", b""):
        raise Unreadable(NotIndexed.MALFORMED, "a part declares entities or a document type")
    return ElementTree.fromstring(content)  # noqa: S314  in the parser's process, and without entities


def plain(text: str) -> str:
    """Text whose lines are no headings or fences of Markdown."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    return "\n".join(escaped_line(line) for line in lines if line)


def row(cells: Sequence[str]) -> str:
    """The cells of a row on one line; empty if all of them are."""
    texts = [" ".join(cell.split()) for cell in cells]
    return plain(" | ".join(texts).rstrip(" |")) if any(texts) else ""


def blocks_as_text(blocks: Iterable[str]) -> str:
    return "\n\n".join(filter(None, blocks))
