"""Whether two similar texts say the same: a copy has other white space, letters' case, order of sentences, or a sentence more.

A text that has another number, negation, name, unit or date is another statement, however alike the two are.  So is one that has a
passage of its own where the other has another one, as pages with the same boilerplate have.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from ingest.document_ids import normalised

MAX_WORDS = 2_000
"""Only this many words of a text are compared."""
_MOST_OWN = 0.08
"""The largest share of the words of a copy that the other text lacks, where the other text has words of its own too."""
_PASSAGE_WORDS = 3
"""If this many words stand in the place of as many others, they are another passage."""
_MOST_SHIFTS = 8

_NUMBERS = """
two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty thirty
forty fifty sixty seventy eighty ninety hundred thousand million billion half third quarter once twice double triple first second
zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn zwanzig dreißig
vierzig fünfzig sechzig siebzig achtzig neunzig hundert tausend million millionen milliarde milliarden halb halbe drittel viertel einmal zweimal
deux trois quatre cinq sept huit neuf dix onze douze treize quatorze quinze seize vingt trente quarante cinquante soixante cent cents mille
millions milliard milliards demi tiers quart dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince veinte treinta
cuarenta cincuenta sesenta setenta ochenta noventa cien ciento mil millón millones medio tercio cuarto due tre quattro cinque sei sette otto
nove dieci undici dodici tredici quattordici quindici sedici venti trenta quaranta cinquanta sessanta settanta ottanta novanta cento mila
milione milioni metà terzo dois duas três quatro sete oito dez onze doze treze quinze vinte trinta quarenta cinquenta sessenta setenta oitenta
noventa cem milhão milhões meio terço twee drie vier vijf zes zeven acht negen tien elf twaalf dertien veertien vijftien twintig dertig veertig
vijftig zestig zeventig tachtig negentig honderd duizend miljoen miljard to tre fire fem seks sju syv otte åtte ni tolv femten tyve
tjue tretti tredive førti halvtreds femti hundre hundrede tusen tusind två tre fyra sex sju åtta nio tio tjugo trettio fyrtio femtio hundra tusen
dwa dwie trzy cztery pięć sześć siedem osiem dziewięć dziesięć sto tysiąc doi două trei patru cinci șase șapte opt nouă zece sută mie
iki üç dört beş altı yedi sekiz dokuz yirmi otuz kırk elli yüz bin два две три четыре пять шесть семь восемь девять десять сто тысяча
δύο τρεις τρία τέσσερις τέσσερα πέντε έξι επτά οκτώ εννέα δέκα εκατό χίλια kaksi kolme neljä viisi kuusi seitsemän kahdeksan yhdeksän
kymmenen sata tuhat két kettő három négy öt hat hét nyolc kilenc tíz száz ezer
"""
_NEGATIONS = """
not no never none nobody nothing neither nor without cannot nicht nichts kein keine keinen keinem keiner keines nie niemals niemand ohne weder noch
ne pas non jamais rien aucun aucune sans ni nunca nada nadie ningún ninguna ninguno sin tampoco mai niente nessun nessuna nessuno senza não nem
nenhum nenhuma sem niet geen nooit niets niemand zonder ikke ikkje ingen ingenting aldrig aldri uden uten inte inga inget utan nie bez nigdy nu
niciodată fără değil hiç yok не нет никогда без ни δεν μην όχι χωρίς ποτέ ei eivät ilman nem nincs soha nélkül لا لم لن ليس غير
"""
_HARD_WORDS = frozenset(normalised(_NUMBERS + _NEGATIONS).split())
_CONTRACTED = re.compile(r"n['’]t\b", re.IGNORECASE)
_WORD = re.compile(r"\w+")
_WITHIN_NUMBER = re.compile(r"[.,:'](?<=\d.)(?=\d)")
_SPACED, _SIGNS = re.compile(r"(\S+)(\s*)"), re.compile(r"[\W_]+")
_SENTENCE_END = re.compile(r"[.!?…。！？]['\")\]]*\Z")
_KNOWN_CHARS = 50
"""Words of fewer characters are kept with what they mean; a text without spaces is one long word."""
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u3400-\u9fff]")

_SOFT, _HARD, _BEGINS = 1, 2, 4
"""A word's code has its hash above three bits: a name or a neighbour of a number, a number or negation, the first of a sentence."""

Codes = NDArray[np.uint32]


def words_of(text: str) -> list[str]:
    """Words without case; digits of one number stay together."""
    return _WORD.findall(_WITHIN_NUMBER.sub("", normalised(text)))


def hash_of(word: str, size: int) -> int:
    """The number of `size` bytes that stands for a word, equal on every machine."""
    return _hash_of(word, size) if len(word) < _KNOWN_CHARS else _hash_of.__wrapped__(word, size)


@lru_cache(1 << 15)
def _hash_of(word: str, size: int) -> int:
    return int.from_bytes(blake2b(word.encode(), digest_size=size).digest(), "little")


def hashed(words: Sequence[str]) -> Codes:
    return np.array([hash_of(word, 4) for word in words], np.uint32) & np.uint32(0xFFFFFFF8)


def coded(text: str) -> Codes:
    """The first MAX_WORDS words of a text, each as a number, for `say_the_same`."""
    normal = _CONTRACTED.sub(" not", unicodedata.normalize("NFKC", text))
    codes: list[int] = []
    begins = True
    for match in _SPACED.finditer(normal):
        word, space = match.groups()
        code, is_last = _code_of(word) if len(word) < _KNOWN_CHARS else _code_of.__wrapped__(word)
        if code is not None:
            codes.append(code & ~_SOFT | _BEGINS if begins else code)
            if len(codes) == MAX_WORDS:
                break
            begins = False
        begins = begins or is_last or space.count("\n") > 1
    numbers = np.array(codes, np.uint32)
    hard = (numbers & _HARD) != 0
    numbers[1:][hard[:-1]] |= _SOFT
    numbers[:-1][hard[1:]] |= _SOFT
    return numbers


@lru_cache(1 << 15)
def _code_of(written: str) -> tuple[int | None, bool]:
    """The code of a word within a sentence, None if it has signs alone; whether a sentence may end after it.

    Signs are not compared, so that copies without punctuation have the same words.
    """
    bare = _SIGNS.sub("", written)
    word = bare.casefold()
    is_hard = word in _HARD_WORDS or any(sign.isdigit() for sign in word) or _UNSPACED.search(word)
    mark = _HARD if is_hard else _SOFT if bare[:1].isupper() else 0
    return hash_of(word, 4) & ~7 | mark if bare else None, _SENTENCE_END.search(written) is not None


def titles_agree(first: Codes, second: Codes) -> bool:
    """Whether one title has all the words of the other, or there is none."""
    one, other = set(first.tolist()), set(second.tolist())
    return one <= other or other <= one


def say_the_same(first: Codes, second: Codes, *, is_short: bool) -> bool:
    """Whether the differences of two texts, as `coded` gives them, change no statement.

    Whole sentences may be moved, added or left out.  In long texts single words may differ that are no numbers, negations, names or
    units, but not the same word in the place of the same other one again.
    """
    one, other = _without_common_sentences(first.tolist(), second.tolist())
    a, b = [code >> 3 for code in one], [code >> 3 for code in other]
    changes = [change for change in SequenceMatcher(None, a, b).get_opcodes() if change[0] != "equal"]
    removed = Counter(word for _, i1, i2, _, _ in changes for word in a[i1:i2])
    added = Counter(word for _, _, _, j1, j2 in changes for word in b[j1:j2])
    moved = removed & added
    own = min((removed - moved).total(), (added - moved).total())
    if own > _MOST_OWN * min(len(first), len(second)):
        return False
    replaced: set[tuple[int, int]] = set()
    for _, i1, i2, j1, j2 in changes:
        sides = (_Side(one, a, i1, i2, moved), _Side(other, b, j1, j2, moved))
        if not _is_harmless(*sides, is_short=is_short):
            return False
        pairs = set(zip(sides[0].words, sides[1].words, strict=False))
        if pairs & replaced:
            return False
        replaced |= pairs
    return True


def _is_harmless(removed: _Side, added: _Side, *, is_short: bool) -> bool:
    sides = [side for side in (removed, added) if side.words]
    if all(side.is_whole and (len(sides) == 1 or side.is_moved) for side in sides):
        return True
    if any(side.marks & _HARD for side in sides):
        return False
    if all(side.is_moved and not side.marks & _SOFT for side in sides):
        return True
    is_another_passage = min(len(removed.words), len(added.words)) >= _PASSAGE_WORDS
    is_another_name = removed.marks & added.marks & _SOFT
    return not (is_short or is_another_passage or is_another_name)


def _without_common_sentences(first: list[int], second: list[int]) -> tuple[list[int], list[int]]:
    """The words of the sentences that the other text does not have, wherever they stand."""
    sentences = _sentences(first), _sentences(second)
    common = Counter(map(tuple, sentences[0])) & Counter(map(tuple, sentences[1]))
    unmatched: list[list[int]] = []
    for some in sentences:
        missing, words = common.copy(), list[int]()
        for sentence in some:
            if missing[key := tuple(sentence)] > 0:
                missing[key] -= 1
            else:
                words += sentence
        unmatched.append(words)
    return unmatched[0], unmatched[1]


def _sentences(codes: list[int]) -> list[list[int]]:
    sentences: list[list[int]] = []
    for code in codes:
        if code & _BEGINS or not sentences:
            sentences.append([])
        sentences[-1].append(code)
    return sentences


class _Side:
    """The words of one text that a change concerns."""

    def __init__(self, codes: list[int], words: list[int], start: int, end: int, moved: Counter[int]) -> None:
        self.words = words[start:end]
        self.marks = int(np.bitwise_or.reduce(np.array(codes[start:end] or [0])))
        self.is_moved = not Counter(self.words) - moved
        self.is_whole = any(
            _is_whole(codes, words, start + by, end + by)
            for by in range(-_MOST_SHIFTS, _MOST_SHIFTS + 1)
            if _is_shifted(words, start, end, by)
        )


def _is_shifted(words: list[int], start: int, end: int, by: int) -> bool:
    """Whether the same words would be left if the change were `by` words further on."""
    if start + by < 0 or end + by > len(words):
        return False
    if by < 0:
        return words[start + by : start] == words[end + by : end]
    return words[start : start + by] == words[end : end + by]


def _is_whole(codes: list[int], words: list[int], start: int, end: int) -> bool:
    """Whether these words are whole sentences."""
    return (
        bool(codes[start] & _BEGINS) and (end == len(words) or bool(codes[end] & _BEGINS))
        if start < end
        else True
    )
