"""What a language model wrote, without its thoughts; and whether it is a passage, and no refusal, loop or JSON."""

from __future__ import annotations

import re

from pydantic_core import from_json

from models.errors import Declined, InvalidAnswer

_NAMES = r"(?:think|thinking|thoughts?|reason|reasoning|reflection|scratchpad|analysis)"
_OPENS = re.compile(
    rf"<\|?(?:seed:|start_|begin_of_)?{_NAMES}\|?>|\[think\]|◁think▷|<\|channel\|?>\s*(?:{_NAMES}|commentary)",
    re.I,
)
_CLOSES = re.compile(
    rf"<\|?(?:/|/seed:|end_|end_of_){_NAMES}\|?>|\[/think\]|◁/think▷|<\|?channel\|>\s*final\s*(?:<\|message\|>)?"
    r"|\Aanalysis(?s:.*?)assistantfinal|<channel\|>",
    re.I,
)
"""The tags of DeepSeek, Qwen, Seed, Magistral, Kimi, Command, OpenThinker, gpt-oss (also where a server has dropped the signs of its
tags) and Gemma."""
_CONTROL = re.compile(r"<\|[a-z_]{2,30}\|>|</?(?:answer|response|s)>|<\|(?:begin|end)_of_solution\|>", re.I)
_FENCE = re.compile(r"```[a-z]*\n(.*?)\n?(?:```|\Z)", re.DOTALL)


def without_thoughts(written: str) -> str | None:
    """The text after the thoughts; None for thoughts without an end."""
    # Where the chat template opens the thoughts, the model writes only the closing tag.
    text = _CLOSES.split(written)[-1]
    return None if _OPENS.search(text) else _CONTROL.sub("", text).strip()


def passage(written: str) -> str:
    """The passage; raises Declined for a refusal in words, and InvalidAnswer for JSON and for a loop."""
    text = match[1].strip() if (match := _FENCE.fullmatch(written)) else written
    if _is_json(text):
        raise InvalidAnswer("JSON in place of a passage")
    if is_loop(text):
        raise InvalidAnswer("the same words again and again")
    if is_refusal(text):
        raise Declined(f"the question was declined: {text[:200]}")
    return text


def _is_json(text: str) -> bool:
    if text[:1] not in ("{", "["):
        return False
    # The end of the text may have been cut.
    is_cut = text.count("{") + text.count("[") > text.count("}") + text.count("]")
    try:
        from_json(text, allow_partial=is_cut)
    except ValueError:
        return False
    return True


_SHINGLE = 10
"""Characters."""


def is_loop(text: str) -> bool:
    """Whether fewer than half of the text's parts of ten characters differ.  In texts that people write nearly all parts differ."""
    parts = [text[at : at + _SHINGLE] for at in range(len(text) - _SHINGLE + 1)]
    return len(parts) >= 3 * _SHINGLE and len({*parts}) < len(parts) / 2


_BEGINNING = 250
"""Only a refusal that begins within this number of characters is recognised."""

_REFUSALS = re.compile(
    r"""
      # A model that speaks of itself.
      \bas\ an?\ (?:\w+\ )?(?:ai|artificial\ intelligence|language\ model)\b[^.!?\n]{0,40}?,?\ (?:i|my)\b
    | \b(?:i\ am|i'm)\ (?:just\ |only\ )?an?\ (?:\w+\ )?(?:ai|artificial\ intelligence|language\ model)\b
    | \bals\ (?:eine?\ )?(?:ki\b|ki-|künstliche\ intelligenz|(?:großes\ )?sprachmodell)[^.!?\n]{0,40}\bich\b
    | (?:^|[.!,]\ )en\ tant\ qu(?:e\ |')(?:une?\ )?(?:ia|intelligence\ artificielle|(?:grand\ )?modèle\ de\ lang)
    | (?:^|[.!,]\ )como\ (?:una?\ |um\ |uma\ )?(?:ia\b|inteligencia\ artificial,|inteligência\ artificial,|modelo\ de\ (?:lenguaje|linguagem|idioma))
    | (?:^|[.!,]\ )(?:come|in\ quanto|essendo)\ (?:una?\ )?(?:ia\b|intelligenza\ artificiale,|modello\ (?:linguistico|di\ linguaggio))
    | (?:^|[.!,]\ )als\ (?:een\ )?(?:ai|taalmodel)\b[^.!?\n]{0,30}\bik\b
    | (?:^|[.!,]\ )(?:jako\ (?:model\ językowy|sztuczna\ inteligencja,|ai\b)|som\ (?:en\ )?(?:ai|språkmodell?|sprogmodel)\b[^.!?\n]{0,30}\bj[ae]g\b)
    | (?:^|[.!,]\ )как\ (?:языковая\ модель|ии\b|искусственный\ интеллект,)
    | (?:^|[.!,]\ )bir\ (?:yapay\ zeka|dil\ modeli)\ olarak
    | 作为[^。，,]{0,12}(?:ai|人工智能|语言模型|助手)[^。]{0,6}[，,]\s*我(?!们) | (?:ai|言語モデル)[^。]{0,6}として、?\s*(?:私|お) | (?:ai|언어\ 모델)[^.]{0,6}로서
    | (?:كنموذج\ لغوي|باعتباري\ (?:نموذج|ذكاء))

      # The first person cannot, may not or will not do what was asked, or does not know it.
    | \bi(?:\ am|'m|\ must|\ have\ to|\ do|\ will)?\b[^.!?\n]{0,20}?
      \b(?:cannot|can\ not|can't|won't|will\ not|couldn't|could\ not|unable\ to|not\ (?:able|allowed|permitted|comfortable|going|in\ a\ position))\b
      [^.!?\n]{0,20}?\b(?:help|assist|answer|provid|writ|generat|creat|comply|fulfil+|respond|produc|offer|give\ you|engag|discuss|continue\ with|verify|confirm|do\ that|find|determine|access)\w*
      (?:[^.!?\n]{0,60}?\b(?:that|this|you|your|request|question|passage|information|answer|content|topic|advice|details)\b|(?=\s*[.!?\n]|$))
    | \bi\ (?:must|have\ to|will\ have\ to|need\ to|respectfully)\ (?:decline|refuse)\b
    | \bi\ (?:(?:do\ not|don't)\ (?:currently\ |actually\ )?have|lack|have\ no)\ (?:\w+\ ){0,3}?
      (?:information|knowledge|context|details|data|access\ to\ (?:that|this|the|real|specific|current|up|external|your|any|internal|private|personal)\b)
    | \bi\ (?:do\ not|don't)\ (?:\w+\ )?know\ (?:the\ answer|what\ you|about|anything|of\ any|enough)
    | ^(?:(?:could|can)\ you\ (?:please\ )?(?:provide|clarify|specify|share|rephrase)|please\ (?:provide|share|specify|clarify)\ (?:the|more|your|a)\ (?:\w+\ )?(?:question|context|passage|text))\b
    | \b(?:ich\ (?:kann|darf|werde|möchte|bin|habe|weiß)|(?:kann|darf|werde|möchte|bin|habe|weiß)\ ich)\b(?=[^.!?\n]{0,90}\b(?:nicht|kein\w*|außerstande)\b)
      [^.!?\n]{0,120}?\b(?:\w*helfen|\w*antworten|geben|liefern|bereitstellen|verfassen|schreiben|zugang|zugriff|informationen|anfrage|frage|erfüllen|nachkommen|antwort)\b
    | \bich\ muss[^.!?\n]{0,60}\bablehnen\b
    | \bje\ (?:ne\ |n'|suis\ (?:dés|incap|dans\ l'incap))[^.!?\n]{0,70}?\b(?:aider|répondre|fournir|écrire|rédiger|accès|informations?|traiter|satisfaire|générer|demande|question)\b
    | \bno\ (?:puedo|tengo|me\ es\ posible|estoy\ autorizad|dispongo|sé)[^.!?\n]{0,30}?\b(?:ayudar\w*|respond\w*|proporcion\w*|escribir|acceso\ a|información|cumplir|ofrecer\w*|generar|solicitud|pregunta|respuesta)\b
    | \bnon\ (?:posso|sono\ in\ grado|ho|dispongo|so|mi\ è\ possibile)\b[^.!?\n]{0,30}?\b(?:aiutar\w*|risponder\w*|fornir\w*|scrivere|accesso\ a\w*|informazioni|soddisfare|generare|richiesta|domanda)\b
    | \bnão\ (?:posso|tenho|consigo|sou\ capaz|disponho|sei)\b[^.!?\n]{0,30}?\b(?:ajud\w*|respond\w*|fornec\w*|escrever|acesso\ a\w*|informaç\w+|atender|gerar|pedido|solicitação|pergunta|resposta)\b
    | \b(?:ik\ (?:kan|mag|ben|heb|weet)|(?:kan|mag|ben|heb)\ ik)\b(?=[^.!?\n]{0,60}\b(?:niet|geen)\b)[^.!?\n]{0,90}?\b(?:help\w*|beantwoord\w*|toegang|informatie|verzoek|vraag|antwoord)\b
    | \bnie\ (?:mogę|mam|jestem\ w\ stanie|potrafię)\b[^.!?\n]{0,30}?\b(?:pomóc|odpowiedzieć|udzielić|napisać|dostępu\ do|informacji|spełnić)\b
    | \b(?:j[ae]g\ (?:kan|har|får|må)|(?:kan|har|får|må)\ j[ae]g)\b[^.!?\n]{0,20}?\b(?:inte|ikke|ingen)\b[^.!?\n]{0,40}?\b(?:hjälpa|hjelpe|hjælpe|svara|svare|tillgång|tilgang|adgang|information|informasjon)\b
    | (?:я\ не\ (?:могу|имею|располагаю|знаю|в\ состоянии)|не\ могу)[^.!?\n]{0,40}(?:помочь|ответить|предоставить|написать|доступ\ к|информаци|выполнить|ответа|запрос)
    | (?:yardımcı\ olamam|yardımcı\ olamıyorum|yardım\ edemem|(?:yanıt|cevap)\ veremem|(?:bilgim|erişimim)\ yok|yerine\ getiremem|bilgi\ sağlayamam)
    | 我(?!们)[^。！？\n]{0,15}(?:无法|不能|没有|不知道)[^。！？\n]{0,15}(?:回答|提供|帮助|协助|满足|访问|信息|生成|请求|撰写|问题)
    | (?:无法|不能)(?:为您|为你|向您)?(?:回答|协助|满足|处理)[^。！？\n]{0,10}(?:问题|请求|要求)
    | (?:お答え|お手伝い|お応え|ご回答)[^。\n]{0,10}(?:でき|かね)[^。\n]{0,3}ません | (?:リクエスト|ご要望|ご質問|ご依頼|質問)[^。\n]{0,15}(?:でき|かね)[^。\n]{0,3}ません
    | (?:답변|대답|답해|도와|도움)[^.!?\n]{0,15}(?:수\ 없|어렵습니다) | (?:요청|질문)[^.!?\n]{0,15}수\ 없습니다
    | لا\ (?:أستطيع|يمكنني|أملك|أعرف)[^.!?\n]{0,40}(?:مساعد|الإجابة|تقديم|معلومات|طلب|الوصول)
    | (?:मैं|मुझे)[^।!?\n]{0,60}(?:मदद|उत्तर|जवाब|जानकारी)[^।!?\n]{0,20}(?:नहीं|असमर्थ)
    """,
    re.IGNORECASE | re.VERBOSE,
)  # fmt: skip
_QUOTES = re.compile('["“„«「『]')


def is_refusal(text: str) -> bool:
    """Whether the text begins by saying, in the first person, that what was asked cannot be done or is not known.

    What the text quotes is somebody else's.
    """
    beginning = text[:_BEGINNING].replace("’", "'")
    match = _REFUSALS.search(beginning)
    return match is not None and not _QUOTES.search(beginning, 1, match.start() + 1)
