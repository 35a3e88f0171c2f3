"""The prompts for language models, by language and domain; `{question}` stands for the question.

Hypothetical documents after Gao et al. 2022: a short passage in the manner of what is indexed.
"""

from __future__ import annotations

from collections.abc import Mapping

PLACE = "{question}"

HYPOTHESIS_PROMPTS: Mapping[str, str] = {
    "en": "Write a short passage, at most 100 words, that answers the question. Give the passage alone.\n"
    "Question: {question}\nPassage:",
    "de": "Schreibe einen kurzen Absatz von höchstens 100 Wörtern, der die Frage beantwortet. Gib nur den Absatz "
    "aus.\nFrage: {question}\nAbsatz:",
    "es": "Escribe un pasaje breve, de 100 palabras como máximo, que responda a la pregunta. Da solo el pasaje.\n"
    "Pregunta: {question}\nPasaje:",
    "fr": "Écris un court passage, de 100 mots au plus, qui répond à la question. Donne le passage seul.\n"
    "Question : {question}\nPassage :",
    "it": "Scrivi un breve brano, di 100 parole al massimo, che risponda alla domanda. Scrivi soltanto il brano.\n"
    "Domanda: {question}\nBrano:",
    "en-science": "Write a short passage of a scientific paper, at most 100 words, that supports or refutes the "
    "claim. Give the passage alone.\nClaim: {question}\nPassage:",
    "en-law": "Write a short passage of a statute, rule or guideline, at most 100 words, that governs the question. "
    "Give the passage alone.\nQuestion: {question}\nPassage:",
    "en-support": "Write a short entry of a handbook or help page, at most 100 words, that solves the problem. Give "
    "the entry alone.\nProblem: {question}\nEntry:",
    "it-law": "Scrivi un breve passo di una legge, circolare o risoluzione, di 100 parole al massimo, che disciplini "
    "la questione. Scrivi soltanto il passo.\nQuestione: {question}\nPasso:",
}
"""Key: the name that a pipeline declares; the default is the installation's language, else English."""

EXPANSION_PROMPT = (
    "Rewrite the search question in its own language. Answer with one JSON object and nothing else, with the fields "
    '"keyword" (the words that a fitting document would contain, synonyms among them), "semantic" (the question as '
    'one plain sentence) and "entity" (names, codes and identifiers of the question, or "").\n'
    "Question: {question}\nJSON:"
)


def prompt_of(name: str | None, *, language: str) -> str:
    """The prompt with this name, or `name` itself if it is a prompt; None: the language's prompt, else English."""
    if name is None:
        return HYPOTHESIS_PROMPTS.get(language, HYPOTHESIS_PROMPTS["en"])
    return HYPOTHESIS_PROMPTS.get(name, name)


def filled(prompt: str, question: str) -> str:
    """Insert the question; braces in the question have no meaning."""
    return prompt.replace(PLACE, question)
