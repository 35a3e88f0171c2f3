"""`chorale models`: the known encoders and rerankers."""

from __future__ import annotations

from dataclasses import asdict

from cli.options import AsJson
from cli.terminal import Text, plain_table, print_result


def models(as_json: AsJson = False) -> None:
    """List encoders and rerankers with their size, languages, licence, prompts and published quality.

    A declared encoder of these names gets its prompts (docs/guides/models.md). The marked models were loaded with
    this version; the other rows repeat what is published.
    """
    from rich.console import Group

    from inference.known_models import ETTIN, KNOWN_MODELS, MTEB

    table = plain_table("model", ">M", ">dim", "languages", "licence", ">nDCG@10")
    for model in KNOWN_MODELS:
        mark = " *" if model.is_verified else ""
        dimension = f"{model.dimensions}" if model.dimensions else "–"
        ndcg = "–" if model.ndcg is None else f"{model.ndcg:.3f}"
        table.add_row(
            Text(model.name + mark), str(model.millions), dimension, model.languages, model.licence, ndcg
        )
    note = Text(
        f"M: million parameters. *: loaded with this version. nDCG@10: encoders on SciFact ({MTEB}); {ETTIN}."
    )
    print_result({"models": [asdict(model) for model in KNOWN_MODELS]}, Group(table, note), as_json=as_json)
