"""What the package `chorale_client` exports."""

from __future__ import annotations

import chorale_client

from tests.support.new_process import imported


def test_the_package_has_every_name_that_it_lists() -> None:
    named = {name: getattr(chorale_client, name).__name__ for name in chorale_client.__all__}
    assert all(name == its_own for name, its_own in named.items())
    assert {*chorale_client.__all__} <= {*dir(chorale_client)}


def test_a_program_that_needs_one_module_of_the_client_does_not_import_the_others() -> None:
    assert imported("import chorale_client.wire_names", "celery kombu pydantic redis") == []


def test_a_client_whose_broker_is_the_ledgers_redis_imports_neither_celery_nor_jobs() -> None:
    program = "from chorale_client import Chorale, make_request; Chorale('redis://localhost')"
    assert imported(program, "amqp celery chorale_client.jobs.handles kombu sqlite3") == []
