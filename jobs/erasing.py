"""Erases the questions of ended jobs."""

from __future__ import annotations

from dataclasses import astuple, replace

from sqlalchemy import Connection, RowMapping, and_, delete, func, select, update

from jobs.job import State
from jobs.jobs_database import JobsDatabase
from jobs.segment_rows import lines_of, packed, pages, results_of
from models.installation_tables import job_table as jobs
from models.installation_tables import segment_table as segments

ERASED = "(erased)"
_WITHOUT_TEXTS = frozenset({"status", "coverage", "deduplicated"})
"""What is kept of the result of an erased line, so that the counts of its job stay right."""


class Erasing(JobsDatabase):
    """The methods of `Jobs` for `chorale audit erase`.  Jobs that have not ended keep their lines."""

    def erase_namespace(self, namespace: str) -> int:
        """Delete the ended jobs of a namespace; returns how many lines they had."""
        which = and_(jobs.c.namespace == namespace, jobs.c.state == State.ENDED)
        with self._writing() as connection:
            ids = select(jobs.c.job_id).where(which)
            connection.execute(delete(segments).where(segments.c.job_id.in_(ids)))
            lines = connection.scalar(select(func.sum(jobs.c.total)).where(which)) or 0
            connection.execute(delete(jobs).where(which))
            return lines

    def unended(self, namespace: str | None = None) -> int:
        """How many jobs (of a namespace) have not ended, and so keep their lines."""
        which = jobs.c.state != State.ENDED
        if namespace is not None:
            which = and_(which, jobs.c.namespace == namespace)
        with self._reading() as connection:
            return connection.scalar(select(func.count()).where(which)) or 0

    def erase_lines(self, correlation_id: str) -> int:
        """Erase question and hits of each line with this correlation id; returns how many lines there were."""
        with self._reading() as connection:
            ended = connection.scalars(select(jobs.c.job_id).where(jobs.c.state == State.ENDED)).all()
        erased = 0
        for job_id in ended:
            with self._writing() as connection:
                erased += sum(_erase(connection, row, correlation_id) for row in pages(connection, job_id))
        return erased


def _erase(connection: Connection, row: RowMapping, correlation_id: str) -> int:
    lines = lines_of(row["lines"])
    places = [
        place
        for place, line in enumerate(lines)
        if (line.fields or {}).get("correlation_id") == correlation_id
    ]
    if not places:
        return 0
    results = results_of(row["results"], len(lines))
    for place in places:
        lines[place] = replace(lines[place], fields={"questions": [{"text": ERASED}]})
        if (result := results[place]) is not None:
            kept = {name: result[name] for name in result.keys() & _WITHOUT_TEXTS}
            results[place] = {**kept, "hits": [], "degraded": [], "warnings": [], "error": ERASED}
    ours = and_(segments.c.job_id == row["job_id"], segments.c.number == row["number"])
    values = {"lines": packed([astuple(line) for line in lines]), "results": packed(results)}
    connection.execute(update(segments).where(ours).values(**values))
    return len(places)
