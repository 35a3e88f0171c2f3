"""The language of a namespace's first documents: declared, recognised in short and long texts, or unknown."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.language_detection import main_language
from ingest.raw_documents import RawDocument

TEXTS = {
    "ar": "يدفع المستأجر الإيجار في اليوم الأول من كل شهر. ويدفع المالك تكاليف إصلاح السقف والنوافذ القديمة.",
    "cs": "Nájemce platí nájemné první den každého měsíce. Za opravu střechy a starých oken platí majitel domu.",
    "da": "Lejeren betaler huslejen den første dag i hver måned. Ejeren af huset betaler for reparationer af taget og de gamle vinduer.",
    "de": "Der Mieter zahlt die Miete am ersten Tag jedes Monats. Für Reparaturen am Dach und an den alten Fenstern zahlt der Eigentümer.",
    "el": "Ο ενοικιαστής πληρώνει το ενοίκιο την πρώτη ημέρα κάθε μήνα. Ο ιδιοκτήτης πληρώνει τις επισκευές της στέγης και των παλιών παραθύρων.",
    "en": "The tenant pays the rent on the first day of each month. The owner of the house pays for repairs of the roof and the old windows.",
    "es": "El inquilino paga el alquiler el primer día de cada mes. El dueño de la casa paga las reparaciones del tejado y de las ventanas viejas.",
    "fi": "Vuokralainen maksaa vuokran joka kuukauden ensimmäisenä päivänä. Talon omistaja maksaa katon ja vanhojen ikkunoiden korjaukset.",
    "fr": "Le locataire paie le loyer le premier jour de chaque mois. Le propriétaire de la maison paie les réparations du toit et des vieilles fenêtres.",
    "hu": "A bérlő minden hónap első napján fizeti a lakbért. A tető és a régi ablakok javítását a ház tulajdonosa fizeti.",
    "it": "L'inquilino paga l'affitto il primo giorno di ogni mese. Il proprietario della casa paga le riparazioni del tetto e delle vecchie finestre.",
    "ja": "借主は毎月一日に家賃を払います。屋根と古い窓の修理代は家の持ち主が払います。",
    "ko": "세입자는 매월 첫날에 집세를 냅니다. 지붕과 오래된 창문의 수리비는 집주인이 냅니다.",
    "nl": "De huurder betaalt de huur op de eerste dag van elke maand. De eigenaar van het huis betaalt de reparaties van het dak en de oude ramen.",
    "no": "Leietakeren betaler husleien den første dagen i hver måned. Eieren av huset betaler for reparasjoner av taket og de gamle vinduene.",
    "pl": "Najemca płaci czynsz pierwszego dnia każdego miesiąca. Za naprawę dachu i starych okien płaci właściciel domu.",
    "pt": "O inquilino paga a renda no primeiro dia de cada mês. O dono da casa paga as reparações do telhado e das janelas velhas.",
    "ro": "Chiriașul plătește chiria în prima zi a fiecărei luni. Proprietarul casei plătește reparațiile acoperișului și ale ferestrelor vechi.",
    "ru": "Жилец платит за квартиру в первый день каждого месяца. За ремонт крыши и старых окон платит хозяин дома.",
    "sv": "Hyresgästen betalar hyran den första dagen i varje månad. Husets ägare betalar för reparationer av taket och de gamla fönstren.",
    "ta": "வாடகைதாரர் ஒவ்வொரு மாதமும் முதல் நாளில் வாடகை செலுத்துகிறார். வீட்டின் உரிமையாளர் கூரையின் பழுதுக்குப் பணம் செலுத்துகிறார்.",
    "th": "ผู้เช่าจ่ายค่าเช่าในวันแรกของทุกเดือน เจ้าของบ้านจ่ายค่าซ่อมหลังคาและหน้าต่างเก่า",
    "tr": "Kiracı kirayı her ayın ilk günü öder. Çatının ve eski pencerelerin onarımını ev sahibi öder.",
    "zh": "租客每个月的第一天交房租。屋顶和旧窗户的修理费由房主支付。",
}


def document(text: str, **metadata: Any) -> RawDocument:
    return RawDocument(document_id=text[:20], source="tests", title="", text=text, metadata=metadata)


@pytest.mark.parametrize("language", TEXTS)
def test_a_language_is_recognised_in_one_sentence_and_in_a_long_text(language: str) -> None:
    first = TEXTS[language].replace("。", ". ").split(". ")[0]
    assert main_language([document(first)]) == language
    assert main_language([document("\n".join([TEXTS[language]] * 20))]) == language


def test_both_kinds_of_norwegian_are_one_language() -> None:
    nynorsk = "Leigetakaren betaler husleiga den første dagen i kvar månad, og eigaren av huset betaler for vindauga."
    assert main_language([document(nynorsk)]) == "no"
    assert main_language([document("", language="nb-NO")]) == main_language([document("", lang="nn")]) == "no"


def test_code_and_numbers_have_no_language_and_do_not_hide_that_of_the_others() -> None:
    code = [
        document("import numpy as np\nfor i in range(10): print(i, np.zeros(3))"),
        document("ERR-4711 E0308 NullPointerException"),
        document("3.14 2.72 1,299.00 2024-03-14"),
    ]
    assert main_language(code) is main_language([document("")]) is main_language([]) is None
    assert main_language([*code, document(TEXTS["tr"])]) == "tr"


def test_the_language_of_bare_words_is_detected_from_all_of_them() -> None:
    words = [
        "Schraubenschlüssel",
        "Dachfenster",
        "Mietvertrag",
        "Kündigungsfrist",
        "Hausordnung",
        "Nebenkosten",
    ]
    assert main_language([document(word) for word in words]) == "de"


def test_the_language_of_most_of_the_text_is_the_main_one() -> None:
    danish = [document(TEXTS["da"])] * 3
    assert main_language([*danish, document(TEXTS["de"])]) == "da"
    assert main_language([*danish, document("\n".join([TEXTS["de"]] * 5))]) == "de"


@pytest.mark.parametrize("declared", ["it", "it-IT", "IT_ch", " it "])
@pytest.mark.parametrize("name", ["language", "lang"])
def test_a_document_s_own_language_is_heeded(name: str, declared: str) -> None:
    assert main_language([document(TEXTS["en"], **{name: declared})]) == "it"


@pytest.mark.parametrize("declared", ["", "Italian", "xx", "und", "zxx", 7, None, ["it"]])
def test_what_is_no_code_of_a_language_is_not_heeded(declared: object) -> None:
    assert main_language([document(TEXTS["el"], language=declared)]) == "el"
