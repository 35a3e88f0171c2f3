"""A Django project in one file whose articles can be found as soon as they are saved: `python articles.py`.

`chorale up` prints the address for CHORALE_REDIS_URL.  The project needs django and chorale-client.
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
        """The article as Chorale takes it.  The metadata come back with each hit, and requests can filter by them."""
        return {
            "id": f"article-{self.pk}",
            "title": self.title,
            "text": self.text,
            "metadata": {"url": f"/articles/{self.pk}/"},
        }


class Deleted(models.Model):
    """A document whose deletion Chorale has not confirmed yet.  Nothing else would remember it."""

    document_id = models.CharField(max_length=200)

    class Meta:
        app_label = "articles"


# After the commit, so that nobody finds what is rolled back.  Robust, so that an article is saved while Chorale is away: Django logs
# the error, and `hand_in_all` makes up for it.  Functions, because Django's log asks for their names.
@receiver(post_save, sender=Article)
def hand_in(instance: Article, **_: Any) -> None:
    document = instance.document

    def after_commit() -> None:
        chorale.upsert(NAMESPACE, [document])

    transaction.on_commit(after_commit, robust=True)


@receiver(post_delete, sender=Article)
def take_out(instance: Article, **_: Any) -> None:
    # In the same transaction: after this signal the article has no id.
    deleted = Deleted.objects.create(document_id=instance.document["id"])

    def after_commit() -> None:
        take_out_now([deleted])

    transaction.on_commit(after_commit, robust=True)


def take_out_now(deleted: Sequence[Deleted]) -> None:
    chorale.delete(NAMESPACE, [one.document_id for one in deleted])
    # Chorale has the deletions.  If it could not be reached, the line above has raised and the rows stay.
    Deleted.objects.filter(pk__in=[one.pk for one in deleted]).delete()


def hand_in_all(at_once: int = 200) -> None:
    """Hand in what Chorale missed while it was away, and what `bulk_create` and `update` changed, which send no signal.

    Call it after those, and every hour or so.  Chorale leaves what it already has as it is.
    """
    while deleted := list(Deleted.objects.all()[:at_once]):
        take_out_now(deleted)
    keys = list(Article.objects.values_list("pk", flat=True))
    for first in range(0, len(keys), at_once):
        # Locked, because a later change of one of these articles must be handed in after this.
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
