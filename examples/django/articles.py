"""A Django project in one file whose articles can be found as soon as they are saved: `python articles.py`.

CHORALE_REDIS_URL is the address that `chorale up` prints.  `pip install django chorale-client`, nothing else of Chorale.
"""

from __future__ import annotations

import os
import time
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
    document_id = instance.document["id"]  # which it has no more after this signal

    def after_commit() -> None:
        chorale.delete(NAMESPACE, [document_id])

    transaction.on_commit(after_commit, robust=True)


def hand_in_all(at_once: int = 200) -> None:
    """Also after `bulk_create` and `update`, which send no signal; what is there already is left as it is."""
    documents = [article.document for article in Article.objects.all()]
    for first in range(0, len(documents), at_once):
        chorale.upsert(NAMESPACE, documents[first : first + at_once])


def create_tables() -> None:
    with connection.schema_editor() as editor:
        editor.create_model(Article)


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
