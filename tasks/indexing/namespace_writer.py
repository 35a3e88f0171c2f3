"""Indexing into a namespace of an installation, and deleting from it, as its one writer; each change publishes a new generation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from chorale_client.keys import GENERATION
from redis.exceptions import RedisError

from config.model_declarations import DEFAULT_ENCODER, EndpointEncoder
from inference.joined import JoinedEmbedder
from inference.protocol import Embedder
from inference.vectors import probe
from ingest.language_detection import main_language
from ingest.language_fit import MEASURED_DOCUMENTS, known_words
from ingest.near_duplicates import NearDuplicates
from ingest.raw_documents import RawDocument, Skipped
from ingest.split import passage_pieces, splitter_name
from models.documents import Manifest
from models.errors import BadIndex, ManifestMismatch, NotEverywhere, ServiceError, UnknownNamespace
from models.not_indexed import NotIndexed
from search.analysis import ANALYSER, LANGUAGES, analyser
from search.closed_values import ClosedValues, wrong_metadata
from search.documents.store import Rebuilding
from tasks.branches.encoders import Encoder
from tasks.indexing.batches import IndexingTarget, index_documents
from tasks.indexing.embedding_prefetch import EmbeddingPrefetch
from tasks.indexing.indexing_run import IndexReport, Progress, SourceDocuments
from tasks.indexing.message_order import NAMESPACE, WriteOrder
from tasks.wiring.resources import Resources


def encoder_of(
    resources: Resources, namespace: str, name: str | None = None, *, is_anew: bool = False
) -> Encoder:
    """The encoder `name`, else the one that the namespace was built with, else the default.

    It indexes with all encoders of the namespace; with `is_anew`, or for a new namespace, also with those that branches name.
    Raises NotConfigured if one of them is not declared, or is behind an address and the namespace is `local_only`.
    """
    present = _present(resources, namespace)
    local_only = bool(present and present.local_only)
    return _encoder_of(resources, present, name, local_only=local_only, is_anew=is_anew)


def _encoder_of(
    resources: Resources,
    present: Manifest | None,
    name: str | None,
    *,
    local_only: bool,
    is_anew: bool = False,
) -> Encoder:
    first = name or (present.encoder if present else DEFAULT_ENCODER)
    if present is None or is_anew:
        written = resources.written_stores
        others = [
            branch.encoder
            for branch in resources.pipeline.branches
            if branch.encoder and branch.store in written
        ]
    else:
        others = sorted(present.parts, key=lambda other: int(present.parts[other]["start"]))
    encoders = [resources.encoders[each] for each in dict.fromkeys([first, *others])]
    if present is not None and not is_anew:
        built = present.embedders
        encoders = [encoder.indexing_as(built.get(encoder.name)) for encoder in encoders]
    if local_only:
        for encoder in encoders:
            encoder.check_local()
    if len(encoders) == 1:
        return encoders[0]
    joined = JoinedEmbedder({encoder.name: encoder.indexing for encoder in encoders})
    return replace(encoders[0], indexing=joined)


def _present(resources: Resources, namespace: str) -> Manifest | None:
    build = resources.documents.table.find(namespace)
    return None if build is None else build.manifest


def manifest_for(
    resources: Resources,
    encoder: str,
    embedder: Embedder,
    texts: Sequence[str] = (),
    *,
    language: str | None = None,
    local_only: bool = False,
) -> Manifest:
    """How the present settings build a namespace with this encoder; `texts` are of its first documents, `language` is theirs."""
    is_behind_an_address = isinstance(resources.encoders.declared[encoder], EndpointEncoder)
    return Manifest(
        encoder=encoder,
        local_only=local_only,
        probe=probe(resources.encoders[encoder].indexing) if is_behind_an_address else None,
        splitter=splitter_name(passage_pieces(embedder.max_pieces)),
        language=resources.settings.language or language or "en",
        analyser=ANALYSER,
        embedder=embedder.fingerprint,
        dimension=embedder.dimension,
        parts=getattr(embedder, "parts", {}),
        known_words=known_words(texts, embedder.count_pieces) if embedder.knows_words else None,
    )


def _analysed_language(first: Sequence[RawDocument]) -> str:
    """The analyser for the language of the first documents, `en` if no language is recognised in them."""
    language = main_language(first) or "en"
    return language if language in LANGUAGES else "none"


def create_namespace(
    resources: Resources,
    namespace: str,
    encoder: str | None = None,
    *,
    language: str | None = None,
    local_only: bool = False,
) -> None:
    """Make an empty namespace; one that is there already stays.  `local_only`: no text of it is sent to a model behind an
    address.  Raises ManifestMismatch if it was built differently, WrongDeclaration for an unknown language, and what
    `encoder_of` raises."""
    present = _present(resources, namespace)
    local_only = local_only or bool(present and present.local_only)
    if present is not None and local_only and not present.local_only:
        raise ManifestMismatch(
            f"namespace {namespace!r} is there already and is not local_only: delete it first"
        )
    chosen = _encoder_of(resources, present, encoder, local_only=local_only)
    if language is not None:
        analyser(language)
    own = present.language if present else None
    manifest = manifest_for(resources, chosen.name, chosen.indexing, language=own, local_only=local_only)
    resources.writing_store.create(namespace, replace(manifest, language=language or manifest.language))


def index_corpus(
    resources: Resources,
    documents: SourceDocuments,
    *,
    namespace: str,
    encoder: str | None = None,
    language: str | None = None,
    rebuild: bool = False,
    progress: Callable[[Progress], None] | None = None,
    order: WriteOrder | None = None,
    ahead: EmbeddingPrefetch | None = None,
) -> IndexReport:
    """Index what is new or changed in a namespace, as its one writer, and publish the generation after each batch.

    `rebuild` builds a new one beside the namespace that is searched, and puts it in its place.  Documents that an
    earlier failure kept from some store are written at the end.  With `order`, no message that was handed in earlier
    writes over this run, and documents that a later message has written are left out where `documents.ids` are known.
    `ahead` embeds before the namespace is held, and leaves out what it has no time for.  `encoder` names the encoder of a
    namespace that is made or built anew, `language` its language.
    A run without `order` deletes the namespace again that it made and wrote nothing into.
    Raises WrongDeclaration for an unknown language, and what `index_documents` raises.
    """
    store = resources.writing_store
    documents = _checked(documents, resources.pipeline.closed_values(namespace))
    if language is not None:
        analyser(language)
    if rebuild:
        store.set_aside_damaged_file()
    present = _present(resources, namespace)
    local_only = bool(present and present.local_only)
    chosen = _encoder_of(resources, present, encoder, local_only=local_only, is_anew=rebuild)
    embedder: Embedder = ahead or chosen.indexing
    documents, first = documents.with_first(MEASURED_DOCUMENTS)
    own = present.language if present and not rebuild else None
    texts = [document.text for document in first]
    text_language = own or language or resources.settings.language or _analysed_language(first)
    manifest = manifest_for(
        resources, chosen.name, embedder, texts, language=text_language, local_only=local_only
    )
    manifest = replace(manifest, language=language or manifest.language)
    anew = Rebuilding(store, namespace, manifest) if rebuild else None
    if anew is None:
        # The deletion of the namespace may come at this moment: what is older than it makes no namespace.
        create = partial(
            store.create, namespace, may_make=lambda: order is None or not order.is_namespace_deleted()
        )
        try:
            manifest = create(manifest)
        except ManifestMismatch:
            if present is not None:
                raise
            # Another process has made the namespace meanwhile: the language of its documents holds.
            own = store.known(namespace).manifest.language
            manifest = create(replace(manifest, language=language or own))
        # A corpus that begins anew, or was restored, goes on from the generation that was published last.
        resources.generations.rise_beyond(namespace)
    else:
        # A rebuilding that was interrupted may hold documents that the source no longer has.
        documents = replace(documents, prune=True)
    try:
        if ahead is not None:
            known = store.revisions_of(namespace, documents.ids or (), source=documents.source)
            documents = replace(documents, items=ahead.take(documents.items, known))
        publish = partial(publish_generation, resources, namespace)
        target = IndexingTarget(
            anew or store,
            namespace,
            manifest,
            embedder,
            resources.settings.near_duplicate_threshold,
            publish,
            ahead.split if ahead is not None else None,
        )
        with store.exclusive(namespace):
            if order is not None and documents.ids is not None:
                documents = _not_overtaken(documents, documents.ids, order)
                if order.is_namespace_deleted():
                    return IndexReport(
                        skipped=[item for item in documents.items if isinstance(item, Skipped)]
                    )
            report = index_documents(documents, target, progress=progress)
            if anew is not None:
                anew.finish()
                resources.generations.rise_beyond(namespace)
            if order is not None:
                order.keep(report.read_ids)
            report.unwritten = store.settle(namespace)
            report.generation = store.generation(namespace)
            # Also where nothing changed: readers may know another generation.
            publish(report.generation)
            return report
    finally:
        # Another message may be about to write into the namespace that this message has made.
        if present is None and order is None:
            _drop_if_empty(resources, namespace)


def _drop_if_empty(resources: Resources, namespace: str) -> None:
    """A run that wrote nothing leaves no namespace behind, which would keep the language of no text."""
    store = resources.writing_store
    with suppress(ServiceError), store.exclusive(namespace):
        if not store.revisions(namespace):
            drop_namespace(resources, namespace)


def publish_generation(resources: Resources, namespace: str, generation: int) -> None:
    # Without Redis, the next worker that starts publishes it.
    with suppress(RedisError):
        resources.generations.publish(namespace, generation)


def delete_documents(
    resources: Resources, ids: Iterable[str], *, namespace: str, order: WriteOrder | None = None
) -> IndexReport:
    """Delete documents from a namespace, in every store, and publish the generation.  Documents that a later message has written
    stay.  Raises BadIndex, WriterBusy.
    """
    document_ids = list(dict.fromkeys(ids))
    try:
        return _delete(resources, document_ids, namespace=namespace, order=order)
    except BadIndex:
        if order is None:
            raise
        # There is no namespace yet, but an older message may be about to make it.  It will leave these documents out,
        # or it has written them meanwhile.
        overtaken = order.overtaken(document_ids)
        order.keep([document_id for document_id in document_ids if document_id not in overtaken])
        return _delete(resources, document_ids, namespace=namespace, order=order)


def _delete(
    resources: Resources, document_ids: list[str], *, namespace: str, order: WriteOrder | None
) -> IndexReport:
    store, report = resources.writing_store, IndexReport()
    with store.exclusive(namespace):
        if order is not None:
            overtaken = order.overtaken(document_ids)
            report.skipped += [
                superseded(document_id) for document_id in document_ids if document_id in overtaken
            ]
            document_ids = [document_id for document_id in document_ids if document_id not in overtaken]
        stored_ids = store.revisions_of(namespace, document_ids)
        with suppress(NotEverywhere):
            store.delete(namespace, document_ids)
        if order is not None:
            order.keep(document_ids)
        report.deleted = len(stored_ids)
        report.unwritten = store.settle(namespace)
        groups = NearDuplicates(
            lambda: store.near_duplicate_rows(namespace),
            threshold=resources.settings.near_duplicate_threshold,
        )
        groups.forget(document_ids)
        report.generation = store.generation(namespace)
        publish_generation(resources, namespace, report.generation)
    return report


def drop_namespace(resources: Resources, namespace: str, order: WriteOrder | None = None) -> IndexReport:
    """Delete a namespace with everything in it, in every store.  With `order`, documents that were handed in earlier do not make it
    again, and those that later messages have written stay.

    Raises UnknownNamespace, WriterBusy, and StageFailure: then other stores may have deleted their part.
    """
    store = resources.writing_store
    if order is not None:
        # An older message that has not made the namespace yet will not make it.
        order.keep([NAMESPACE])
    # An older message that is making the namespace holds it.
    with store.exclusive(namespace):
        state = next(iter(store.namespaces(names=[namespace])), None)
        if state is None:
            names = [state.name for state in store.namespaces(limit=20)]
            raise UnknownNamespace(namespace, "the stores", names)
        if order is not None and (later := order.written_later()):
            older_ids = sorted(store.revisions(namespace).keys() - later)
            return _delete(resources, older_ids, namespace=namespace, order=order)
        store.drop(namespace)
        # Without a generation in Redis no cached answer is served, and none is stored.
        with suppress(RedisError):
            resources.redis.delete(GENERATION + namespace)
    return IndexReport(deleted=state.documents)


def _checked(documents: SourceDocuments, closed: ClosedValues) -> SourceDocuments:
    """Leaves out the documents with a value outside the closed list of its field; an earlier version of one stays."""
    if not closed:
        return documents

    def checked(item: RawDocument | Skipped) -> RawDocument | Skipped:
        why = wrong_metadata(item.metadata, closed) if isinstance(item, RawDocument) else None
        if why is None or isinstance(item, Skipped):
            return item
        return Skipped(
            item.path or item.document_id, NotIndexed.WRONG_VALUE, why, item.line, spares=item.document_id
        )

    items = map(checked, documents.items)
    return replace(documents, items=items if documents.ids is None else list(items))


def _not_overtaken(documents: SourceDocuments, ids: Sequence[str], order: WriteOrder) -> SourceDocuments:
    overtaken = order.overtaken(ids)
    items = [
        superseded(item.document_id)
        if isinstance(item, RawDocument) and item.document_id in overtaken
        else item
        for item in documents.items
    ]
    return replace(documents, items=items)


def superseded(document_id: str) -> Skipped:
    return Skipped(document_id, NotIndexed.SUPERSEDED, "overtaken: a later message has written or deleted it")
