"""`chorale models`: the known encoders and rerankers, and what this installation declares."""

from __future__ import annotations

from dataclasses import asdict

from cli.options import AsJson
from cli.terminal import Text, plain_table, print_result


def models(as_json: AsJson = False) -> None:
    """List encoders and rerankers with their size, languages, licence, prompts and published quality.

    A declared encoder of these names gets its prompts (docs/guides/models.md). Rows that are marked were loaded with this
    version; the others repeat their sources.

    Examples:

        chorale models

        chorale models --json
    """
    from inference.known_models import KNOWN_MODELS

    table = plain_table("model", ">M", ">dim", ">pieces", "languages", "licence", ">nDCG@10", "prompts", "")
    for model in KNOWN_MODELS:
        prompts = ", ".join(
            what for what, text in zip(("question", "passage"), model.prompts, strict=True) if text
        )
        dimensions = str(model.dimensions) if model.dimensions else "reranker"
        table.add_row(
            Text(model.name, "bold"),
            str(model.millions),
            dimensions,
            f"{model.max_pieces:,}",
            model.languages,
            model.licence,
            f"{model.ndcg:.3f}",
            prompts,
            "tried here" if model.is_verified else "",
        )
    print_result({"models": [asdict(model) for model in KNOWN_MODELS]}, table, as_json=as_json)
