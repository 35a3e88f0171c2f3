"""Why something that was given is not indexed: the closed list of reasons in reports, in the log and in outcomes."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class NotIndexed(StrEnum):
    """The reason's word on the wire, with what it means.

    `is_fault`: something that was to be indexed is not (exit code 8).  `is_part`: the document is indexed without a part.
    """

    is_fault: bool
    is_part: bool
    meaning: str

    def __new__(cls, word: str, meaning: str = "", is_fault: bool = True, is_part: bool = False) -> Self:
        member = str.__new__(cls, word)
        member._value_ = word
        member.meaning, member.is_fault, member.is_part = meaning, is_fault, is_part
        return member

    UNKNOWN_FORMAT = "unknown_format", "no reader reads this format"
    NOT_UTF8 = "not_utf8", "the text is not UTF-8, or it is binary"
    MALFORMED = "malformed", "it is damaged, locked or not in its format, so its parser gave up"
    NO_TEXT = "no_text", "it has content, and no text was found in it"
    TOO_LARGE = "too_large", "it has more bytes than a document or its metadata may have"
    OVER_LIMIT = "over_limit", "its parser took more time, memory or room than the settings allow"
    MISSING_PACKAGE = "missing_package", "the package that reads this format is not installed"
    NOT_OPENED = "not_opened", "it cannot be opened, or it is neither a file nor a folder"
    WRONG_ID = "wrong_id", "it has no id, or an id or path that stores do not accept"
    REPEATED_ID = "repeated_id", "an earlier document of the run has the same id"
    WRONG_VALUE = "wrong_value", "its metadata has a value outside the closed list of the field"
    NOT_WRITTEN = "not_written", "a store refused it"

    METADATA = "metadata", "it is indexed without a value of its metadata", True, True
    PICTURE_PAGES = "picture_pages", "it is indexed without pages that have pictures and no text", True, True
    GARBLED_PAGES = (
        "garbled_pages",
        "it is indexed without pages whose fonts do not say which characters they show",
        True,
        True,
    )
    HEADINGS = "headings", "it is indexed without headings, because it has too many", True, True
    DIRECTIVE = "directive", "it is indexed without what a directive includes", False, True
    HIDDEN_TEXT = "hidden_text", "it is indexed without text that a person does not see", False, True

    HIDDEN = "hidden", "its name begins with a dot", False
    LINK = "link", "a link in a folder is followed only with --follow-links", False
    EMPTY = "empty", "there is nothing in it", False
    SUPERSEDED = "superseded", "there is a later version of the document", False
