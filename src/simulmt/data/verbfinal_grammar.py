"""The grammar of the embedded corpus: German and English phrases built side by side.

Its unit is the `Phrase`: German words in German order, English words in English order, and for
each English word the German words without which it cannot be known. The grammar moves words
around; the word alignment simply follows them.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from simulmt.data import verbfinal_lexicon as lexicon

NOMINATIVE, ACCUSATIVE = 0, 4  # where the columns of a case begin in `lexicon.DETERMINERS`


@dataclass(eq=False, slots=True)
class Word:
    """One German word of one sentence: two equal words are still different ones."""

    text: str


class English(NamedTuple):
    """One English word and the German words that must be known to write it."""

    text: str
    links: tuple[Word, ...]


@dataclass(slots=True)
class Phrase:
    """A piece of a sentence in both languages, each in its own order."""

    german: list[Word]
    english: list[English]

    def __add__(self, other: Phrase) -> Phrase:
        return Phrase(self.german + other.german, self.english + other.english)


class Subject(NamedTuple):
    """A subject, its number, and the possessive ("his") that refers back to it, if any."""

    phrase: Phrase
    plural: bool
    possessive: str | None


class Content(NamedTuple):
    """A clause without its verb: `middle` and `tail` are its German and English remainders."""

    front: Phrase
    subject: Subject
    middle: list[Word]
    tail: list[English]


def nothing() -> Phrase:
    """The empty phrase."""
    return Phrase([], [])


def gloss(german: str, english: str) -> Phrase:
    """A fixed expression; "|" divides both sides into pieces that translate one by one."""
    phrase = nothing()
    for piece, translation in zip(german.split("|"), english.split("|"), strict=True):
        words = [Word(text) for text in piece.split()]
        phrase.german += words
        phrase.english += [English(text, tuple(words)) for text in translation.split()]
    return phrase


def maybe(rng: random.Random, chance: float, entries: Sequence[tuple[str, str]]) -> Phrase:
    """One of the entries, or with probability 1 - chance nothing."""
    return gloss(*rng.choice(entries)) if entries and rng.random() < chance else nothing()


def indefinite_article(following: str) -> str:
    """The form "a" or "an" takes before an English word."""
    return "an" if following[0] in "aeiou" else "a"


def noun_phrase(
    rng: random.Random, noun: lexicon.Noun, plural: bool, determiner: str, case: int
) -> Phrase:
    """Determiner, perhaps an adjective, noun: agreeing in case, gender and number."""
    column = case + (3 if plural else "mfn".index(noun.gender))
    forms, endings = lexicon.DETERMINERS[determiner]
    phrase = nothing()
    if rng.random() < 0.33:
        adjective, english = rng.choice(lexicon.ADJECTIVES)
        phrase = gloss(adjective + endings[column], english)
    number = (noun.plural, noun.english_plural) if plural else (noun.singular, noun.english)
    phrase += gloss(*number)
    form = forms[column]
    if form == "-":
        return phrase
    article, following = Word(form), phrase.german[0]
    links: tuple[Word, ...] = (article,)
    if determiner == "a":
        determiner, links = indefinite_article(phrase.english[0].text), (article, following)
    elif determiner == "this" and form == "diese":  # feminine or plural? The next word tells.
        determiner, links = "these" if plural else "this", (article, following)
    return Phrase([article, *phrase.german], [English(determiner, links), *phrase.english])


def draw_subject(rng: random.Random, nouns: Sequence[lexicon.Noun]) -> Subject:
    """A noun phrase, a first name or a pronoun in the nominative."""
    kind = rng.random()
    if kind < 0.06:
        return Subject(gloss("er", "he"), False, "his")
    if kind < 0.12:
        return Subject(gloss("wir", "we"), True, None)
    if kind < 0.22:
        name, possessive = rng.choice(lexicon.NAMES)
        return Subject(gloss(name, name), False, possessive)
    noun, plural = rng.choice(nouns), rng.random() < 0.25
    phrase = noun_phrase(rng, noun, plural, rng.choice(("the", "the", "a")), NOMINATIVE)
    owner = "their" if plural else {"m": "his", "f": "her", "n": None}[noun.gender]
    return Subject(phrase, plural, owner)


def draw_object(rng: random.Random, subject: Subject) -> tuple[Phrase, bool]:
    """A thing in the accusative, and whether it is definite."""
    determiner = rng.choice(("the", "the", "this", "a", "a", subject.possessive or "a"))
    noun, plural = rng.choice(lexicon.THINGS), rng.random() < 0.25
    return noun_phrase(rng, noun, plural, determiner, ACCUSATIVE), determiner != "a"


def draw_participle(rng: random.Random) -> tuple[Word, lexicon.Verb]:
    """The participle of some verb, and that verb."""
    verb = rng.choice(lexicon.VERBS)
    return Word(verb.particle + verb.participle), verb


def draw_content(
    rng: random.Random,
    times: Sequence[tuple[str, str]],
    *,
    chance: float = 0.5,
    fronting: float = 0.4,
    aspect: Word | None = None,
) -> Content:
    """Subject, object and 0 to 3 adverbials for a clause whose verb comes last.

    German orders time, manner, place, around which a definite object may stand on either side
    and an indefinite one last; English orders object, manner, place, time.

    Args:
        rng: the source of chance.
        times: the time adverbials that suit the tense.
        chance: the probability of each adverbial.
        fronting: the probability that an adverbial of time, or else of place, opens the clause.
        aspect: an adverb of the middle field whose English belongs to the verb.
    """
    subject = draw_subject(rng, lexicon.PERSONS)
    thing, definite = draw_object(rng, subject)
    time, place = maybe(rng, chance, times), maybe(rng, chance, lexicon.PLACES)
    manner = maybe(rng, chance, lexicon.MANNERS)
    front = nothing()
    if rng.random() < fronting:
        if time.german:
            front, time = time, front
        else:
            front, place = place, front
    adverbials = [*([aspect] if aspect else []), *(time + manner + place).german]
    early = definite and rng.random() < 0.5
    middle = thing.german + adverbials if early else adverbials + thing.german
    return Content(front, subject, middle, (thing + manner + place + time).english)


def main_clause(
    content: Content, finite: Word, final: Sequence[Word], verb: Iterable[English]
) -> Phrase:
    """Finite verb second, the rest of the verb last; the whole English verb after the subject."""
    front, subject = content.front, content.subject.phrase
    second = [finite, *subject.german] if front.german else [*subject.german, finite]
    return Phrase(
        [*front.german, *second, *content.middle, *final],
        [*front.english, *subject.english, *verb, *content.tail],
    )


def subordinate_clause(rng: random.Random, german: str, english: str) -> Phrase:
    """A conjunction, then a clause in the present tense with its whole verb last."""
    content = draw_content(rng, lexicon.PRESENT, chance=0.35, fronting=0)
    verb, (subject, plural, _) = rng.choice(lexicon.VERBS), content.subject
    final = Word(verb.particle + (verb.plural if plural else verb.singular))
    finite = English(verb.base if plural else verb.third, (final,))
    return gloss(german, english) + Phrase(
        [*subject.german, *content.middle, final], [*subject.english, finite, *content.tail]
    )
