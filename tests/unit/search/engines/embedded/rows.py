"""Rows of an embedded store that were never written."""

from __future__ import annotations

import numpy as np

from search.documents.lookups import DocumentVersion
from search.engines.embedded.passage_rows import Rows


def rows_of(documents: list[int], passage_ids: list[str], versions: list[DocumentVersion]) -> Rows:
    """A passage for each of `documents`, which names the place of its version."""
    return Rows(
        visible=1,
        rids=np.arange(len(documents)),
        version_of=np.array(documents, np.int32),
        alive=np.ones(len(documents), np.bool_),
        versions_alive=np.ones(len(versions), np.bool_),
        first_rids=np.array([documents.index(n) if n in documents else 0 for n in range(len(versions))]),
        passage_ids=passage_ids,
        versions=versions,
        versions_of={version.document_id: [place] for place, version in enumerate(versions)},
    )
