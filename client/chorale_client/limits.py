"""The limits of what a caller may send.  docs/reference/wire.md has the same table, and a test compares both."""

# Of one request

MAX_REQUEST_BYTES = 262_144
"""Size of a request as JSON."""
MAX_QUESTIONS = 64
MAX_TEXT_CHARS = 8_192
"""Length of a question, of a rewrite, and of a hypothetical document."""
MAX_REWRITES = 8
"""Rewrites of one question; also hypothetical documents of one question."""
MAX_DEPTH = 1_000
"""Documents of each branch for a question."""
MAX_CANDIDATES = 20_000
"""Questions x effective depth."""
MAX_NAME_CHARS = 256
"""Length of the name of a configuration, fusion method, branch, tag or filter's field, and of a correlation id."""
MAX_TAGS = 16
MAX_BRANCHES = 16
"""Entries of `branches`, of `weights` and of `require`."""
MAX_EXCLUDED = 1_000
MAX_ID_CHARS = 512
"""Length of each id in `exclude_ids`."""
MAX_CONDITIONS = 200
"""Conditions of all filters together: each value, list of values, operator and part of a `contains` is one."""
MAX_FILTER_VALUES = 1_000
"""Values in all lists of all filters together."""
MAX_FILTER_DEPTH = 8
"""Levels of lists and objects below a filter's field."""

# Of the rules of a namespace

MAX_RULES = 1_000
MAX_RULES_BYTES = 131_072
"""Size of all rules of a namespace as JSON."""
MAX_PHRASES = 100
"""Questions, or words, of a rule."""
MAX_PHRASE_CHARS = 256
MAX_RULE_DOCUMENTS = 100
"""Documents of a rule; also pinned documents of a question."""
MAX_BLOCKED = 200
"""Documents that the rules of a namespace block; each makes every branch search one document deeper."""
MAX_ALSO_SEARCHED = 32
"""Synonyms that BM25 searches beside a question."""

# Of a bulk job

MAX_LINES = 1_000_000
MAX_JOB_BYTES = 2_000_000_000
MAX_LINE_BYTES = 1_000_000
MAX_ROW_CHARS = 131_072
"""Length of a record of CSV."""
MAX_LINE_ID_CHARS = 256

# Of a document

MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
"""Size of a document as a line of JSON; an index worker needs a few minutes for the largest one."""
MAX_METADATA_BYTES = 262_144
"""Size of all fields but `id`, `title`, `text` and `markup` as JSON.  Filters read them while a request waits."""

# Of a message with documents or ids

MAX_DOCUMENTS = 1_000
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""Size of all documents together as JSON."""
MAX_DELETED = 10_000
"""Ids of documents to delete."""
