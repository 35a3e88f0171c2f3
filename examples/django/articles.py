"""A Django project in one file whose articles can be found as soon as they are saved: `python articles.py`.

CHORALE_REDIS_URL is the address that `chorale up` prints.  `pip install django chorale-client`, nothing else of Chorale.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import django
from chorale_client import Chorale
from django.conf import settings
from django.db import connection, models, transaction
from django.db.models.signals import post_delete, post_save
from django.dispatch import receiver

if not settings.configured:
    settings.configure(
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        USE_TZ=True,
    )
    django.setup()

NAMESPACE = "articles"
chorale = Chorale(os.environ["CHORALE_REDIS_URL"])


class Article(models.Model):
    title = models.CharField(max_length=200)
    text = models.TextField()

    class Meta:
        app_label = "articles"

    @property
    def document(self) -> dict[str, Any]:
        """As Chorale takes it; the metadata come back with each hit, and requests filter by them."""
        return {
            "id": f"article-{self.pk}",
            "title": self.title,
            "text": self.text,
            "metadata": {"url": f"/articles/{self.pk}/"},
        }


class Deleted(models.Model):
    """A document that Chorale has not been told to delete yet: nothing else would remember it."""

    document_id = models.CharField(max_length=200)

    class Meta:
        app_label = "articles"


# After the commit, so that what is rolled back is never found; robust, so that a Chorale that is away costs nobody an
# article: Django logs it, and `hand_in_all` makes up for it.  Functions, since Django's log asks for their names.
@receiver(post_save, sender=Article)
def hand_in(instance: Article, **_: Any) -> None:
    document = instance.document

    def after_commit() -> None:
        chorale.upsert(NAMESPACE, [document])

    transaction.on_commit(after_commit, robust=True)


@receiver(post_delete, sender=Article)
def take_out(instance: Article, **_: Any) -> None:
    # In the same transaction; the article has no id any more after this signal.
    deleted = Deleted.objects.create(document_id=instance.document["id"])

    def after_commit() -> None:
        take_out_now([deleted])

    transaction.on_commit(after_commit, robust=True)


def take_out_now(deleted: Sequence[Deleted]) -> None:
    chorale.delete(NAMESPACE, [one.document_id for one in deleted])
    # Chorale has it.  Where it could not be told, the line above has raised, and they stay.
    Deleted.objects.filter(pk__in=[one.pk for one in deleted]).delete()


def hand_in_all(at_once: int = 200) -> None:
    """What Chorale missed while it was away, and by `bulk_create` and `update`, which send no signal: call it after
    those, and every hour or so.  What it has already is left as it is."""
    while deleted := list(Deleted.objects.all()[:at_once]):
        take_out_now(deleted)
    keys = list(Article.objects.values_list("pk", flat=True))
    for first in range(0, len(keys), at_once):
        # Locked, since who saves or deletes one of them meanwhile has to hand in later than this.
        with transaction.atomic():
            locked = Article.objects.select_for_update().filter(pk__in=keys[first : first + at_once])
            if documents := [article.document for article in locked]:
                chorale.upsert(NAMESPACE, documents)


def create_tables() -> None:
    with connection.schema_editor() as editor:
        editor.create_model(Article)
        editor.create_model(Deleted)


def titles(question: str) -> list[str]:
    return [hit.title for hit in chorale.retrieve(question, namespace=NAMESPACE).hits]


if __name__ == "__main__":
    create_tables()
    tea = Article.objects.create(title="Tea", text="Green tea is brewed at eighty degrees.")
    question = "how hot is the water for green tea?"
    while not titles(question):
        time.sleep(0.1)
    print("saved:", titles(question))
    tea.delete()
    while titles(question):
        time.sleep(0.1)
    print("deleted:", titles(question))
