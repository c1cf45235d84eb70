"""The grammar of the built-in corpus: it builds German and English phrases side by side.

Its unit is the `Phrase`: German words in German order, English words in English order, and for
each English word the German words that determine it. Moving words keeps these links, so the word
alignment of a sentence is exact by construction.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from simulmt.data import verbfinal_lexicon as lexicon

NOMINATIVE, ACCUSATIVE = 0, 4  # the first column of a case in `lexicon.DETERMINERS`


@dataclass(eq=False, slots=True)
class LexicalWord:
    """One German word in a sentence; words of equal text differ."""

    text: str


class English(NamedTuple):
    """An English word and the German words that must be read before it can be written."""

    text: str
    links: tuple[LexicalWord, ...]


@dataclass(slots=True)
class Phrase:
    """A part of a sentence in both languages, each in its own order."""

    german: list[LexicalWord] = field(default_factory=list)
    english: list[English] = field(default_factory=list)

    def __add__(self, other: "Phrase") -> "Phrase":
        return Phrase(self.german + other.german, self.english + other.english)


class Subject(NamedTuple):
    """A subject, its number, and the possessive that refers to it ("his"), if any."""

    phrase: Phrase
    plural: bool
    possessive: str | None


class Clause(NamedTuple):
    """A clause without its verb: the adverbial in front, the subject, and the rest."""

    front: Phrase
    subject: Subject
    rest: Phrase


def gloss(german: str, english: str) -> Phrase:
    """A phrase of fixed words; "|" divides both sides into pieces that translate one by one."""
    phrase = Phrase()
    for piece, translation in zip(german.split("|"), english.split("|"), strict=True):
        words = [LexicalWord(text) for text in piece.split()]
        phrase.german += words
        phrase.english += [English(text, tuple(words)) for text in translation.split()]
    return phrase


def maybe(rng: random.Random, chance: float, entries: Sequence[tuple[str, str]]) -> Phrase:
    """A random entry with probability `chance`, else the empty phrase."""
    return gloss(*rng.choice(entries)) if entries and rng.random() < chance else Phrase()


def noun_phrase(
    rng: random.Random, noun: lexicon.Noun, plural: bool, determiner: str, case: int
) -> Phrase:
    """Determiner, with probability 0.33 an adjective, and noun, in agreement.

    Args:
        rng: the source of chance.
        noun: the noun.
        plural: its number.
        determiner: a key of `lexicon.DETERMINERS`.
        case: `NOMINATIVE` or `ACCUSATIVE`.
    """
    column = case + (3 if plural else "mfn".index(noun.gender))
    forms, endings = lexicon.DETERMINERS[determiner]
    phrase = Phrase()
    if rng.random() < 0.33:
        adjective, english = rng.choice(lexicon.ADJECTIVES)
        phrase = gloss(adjective + endings[column], english)
    number = (noun.plural, noun.english_plural) if plural else (noun.singular, noun.english)
    phrase += gloss(*number)
    form = forms[column]
    if form == "-":
        return phrase
    article, following = LexicalWord(form), phrase.german[0]
    needs_next = determiner == "a" or form == "diese"  # "a" or "an", "this" or "these"
    links = (article, following) if needs_next else (article,)
    if determiner == "a" and phrase.english[0].text[0] in "aeiou":
        determiner = "an"
    elif determiner == "this" and plural:
        determiner = "these"
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
    """A thing in the accusative, and True if it is definite."""
    determiner = rng.choice(("the", "the", "this", "a", "a", subject.possessive or "a"))
    noun, plural = rng.choice(lexicon.THINGS), rng.random() < 0.25
    return noun_phrase(rng, noun, plural, determiner, ACCUSATIVE), determiner != "a"


def draw_clause(
    rng: random.Random,
    times: Sequence[tuple[str, str]],
    *,
    chance: float = 0.5,
    fronting: float = 0.4,
    aspect: Sequence[LexicalWord] = (),
) -> Clause:
    """Subject, object and 0 to 3 adverbials of a clause whose verb comes last.

    German orders time, manner, place; the object precedes or follows them if it is definite and
    follows them if it is indefinite. English orders object, manner, place, time.

    Args:
        rng: the source of chance.
        times: the adverbials of time that suit the tense.
        chance: the probability of each adverbial.
        fronting: the probability that an adverbial opens the clause: the time, else the place.
        aspect: the adverb after the subject whose English belongs to the verb.
    """
    subject = draw_subject(rng, lexicon.PERSONS)
    thing, definite = draw_object(rng, subject)
    time, place = maybe(rng, chance, times), maybe(rng, chance, lexicon.PLACES)
    manner = maybe(rng, chance, lexicon.MANNERS)
    front = Phrase()
    if rng.random() < fronting:
        if time.german:
            front, time = time, front
        else:
            front, place = place, front
    adverbials = [*aspect, *(time + manner + place).german]
    early = definite and rng.random() < 0.5
    german = thing.german + adverbials if early else adverbials + thing.german
    return Clause(front, subject, Phrase(german, (thing + manner + place + time).english))


def main_clause(clause: Clause, verb: Phrase) -> Phrase:
    """The clause with its first German verb form second and the other forms last.

    In English the whole verb follows the subject.
    """
    front, (subject, *_), rest = clause
    finite, *final = verb.german
    second = [finite, *subject.german] if front.german else [*subject.german, finite]
    german = [*front.german, *second, *rest.german, *final]
    return Phrase(german, (front + subject + verb + rest).english)


def subordinate_clause(rng: random.Random, german: str, english: str) -> Phrase:
    """A conjunction and a clause in the present tense whose German verb comes last."""
    _, (subject, plural, _), rest = draw_clause(rng, lexicon.PRESENT, chance=0.35, fronting=0)
    entry = rng.choice(lexicon.VERBS)
    stem, translation = entry.present(plural)
    verb = gloss(entry.particle + stem, translation)
    clause = Phrase((subject + rest + verb).german, (subject + verb + rest).english)
    return gloss(german, english) + clause
