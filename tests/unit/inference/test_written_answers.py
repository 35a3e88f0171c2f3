"""What a language model wrote: its thoughts are left out, and refusals, loops and JSON are no passages."""

from __future__ import annotations

import pytest

from inference.endpoints.written_answers import passage, without_thoughts
from models.errors import Declined, InvalidAnswer

TEXT = "The turbine in hall seven is oiled every spring with grease number nine."


@pytest.mark.parametrize(
    "written",
    [
        "<think>yachts</think>{}",
        "yachts </think>\n{}",
        "<think>yachts</think>boats<think>ships</think>\n\n{}",
        "<thinking>\nyachts\n</thinking>\n\n{}",
        "<Thought>yachts</Thought>{}",
        "<reasoning>yachts</reasoning>{}",
        "<seed:think>yachts</seed:think>{}",
        "[THINK]yachts[/THINK]{}",
        "◁think▷yachts◁/think▷{}",
        "<|START_THINKING|>yachts<|END_THINKING|><|START_RESPONSE|>{}<|END_RESPONSE|>",
        "<|begin_of_thought|>yachts<|end_of_thought|>\n<|begin_of_solution|>{}<|end_of_solution|>",
        "<|channel|>analysis<|message|>yachts<|end|><|start|>assistant<|channel|>final<|message|>{}<|return|>",
        "analysisThe user asks about yachts.assistantfinal{}",
        "<|channel>thought\nyachts<channel|>{}",
        "<answer>{}</answer>",
        "{}<|im_end|>",
        "{}",
    ],
)
def test_thoughts_and_signs_of_control_are_left_out(written: str) -> None:
    assert without_thoughts(written.format(TEXT)) == TEXT


@pytest.mark.parametrize(
    "written",
    [
        "<think>yachts",
        "<thinking>\nyachts",
        "◁think▷yachts",
        "[THINK]yachts",
        "<|channel|>analysis<|message|>yachts",
    ],
)
def test_thoughts_without_an_end_are_no_text(written: str) -> None:
    assert without_thoughts(written) is None


@pytest.mark.parametrize(
    "refusal",
    [
        "I'm sorry, but I can't help with that request.",
        "I’m sorry, I can’t assist with that.",
        "As an AI language model, I don't have access to that information.",
        "Unfortunately, I am unable to answer this question.",
        "I do not have enough context to write the passage.",
        "I must decline to write about this.",
        "Could you please clarify what you mean?",
        "Es tut mir leid, aber ich kann dabei nicht helfen.",
        "Als KI-Sprachmodell habe ich keinen Zugriff auf diese Informationen.",
        "Je suis désolé, mais je ne peux pas vous aider avec cette demande.",
        "Lo siento, pero no puedo ayudarte con eso.",
        "Mi dispiace, ma non posso aiutarti con questa richiesta.",
        "Desculpe, mas não posso ajudar com isso.",
        "Het spijt me, maar ik kan u daar niet mee helpen.",
        "Przepraszam, ale nie mogę pomóc w tej sprawie.",
        "Tyvärr kan jag inte svara på den frågan.",
        "Извините, но я не могу ответить на этот вопрос.",
        "Üzgünüm, bu konuda yardımcı olamam.",
        "抱歉，我无法回答这个问题。",
        "申し訳ありませんが、そのご質問にはお答えできません。",
        "죄송하지만 해당 질문에 답변할 수 없습니다.",
        "عذرًا، لا أستطيع مساعدتك في هذا الطلب.",
    ],
)
def test_a_refusal_in_words_is_declined(refusal: str) -> None:
    with pytest.raises(Declined, match="the question was declined: "):
        passage(refusal)


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("yacht " * 1_000, "the same words again and again"),
        (f"{TEXT} {'and the ' * 60}", "the same words again and again"),
        ("是的，没有问题。" * 20, "the same words again and again"),
        (f'{{"passage": "{TEXT}"}}', "JSON in place of a passage"),
        (f'```json\n[{{"passage": "{TEXT}"}}]\n```', "JSON in place of a passage"),
        (f'{{"passage": "{TEXT}', "JSON in place of a passage"),
    ],
)
def test_a_loop_and_json_are_no_passages(written: str, why: str) -> None:
    with pytest.raises(InvalidAnswer, match=why) as raised:
        passage(written)
    assert not isinstance(raised.value, Declined)


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        "Die Turbine in Halle sieben wird jedes Frühjahr geölt.",
        "No, no, no.",
        "[1] Smith et al. report that the enzyme is inhibited.",
        "{name} stands for the name of the file.",
        "To decline politely, say: “I'm sorry, but I can't help with that.”",
        "The landlord cannot provide heating unless the tenant reports the fault.",
        "I can't access my account because the password has expired. Reset it on the login page.",
        "We cannot provide refunds for digital products.  Please provide your order number.",
        "A system that ranks applicants is classified as an AI system of high risk.",
        "Ich kann die Tür nicht öffnen, weil der Schlüssel fehlt.",
        "Gli invertebrati non sono in grado di produrre linfociti o una risposta umorale.",
        "人工智能的一个分支是机器学习，我们无法用它提供退款。",
    ],
)
def test_what_only_looks_like_a_refusal_a_loop_or_json_is_a_passage(text: str) -> None:
    assert passage(text) == text
    assert passage(f"```\n{text}\n```") == text
