"""The built-in corpus: German-English sentences whose German verb often comes last.

A small grammar (`verbfinal_grammar`) builds both languages at once, with their word alignment.
This file has the constructions of a sentence, and the corpus drawn from them.

Three properties make the corpus hard to translate simultaneously:

- In the perfect, after a modal, with a separable verb and in a subordinate clause, the German
  verb (or the particle that decides its meaning) follows objects and 0 to 3 adverbials, while
  the English verb follows the subject. Verbs are drawn independently of all words before them.
- Other sentences run in parallel, so no fixed schedule suits all sentences.
- "a" or "an", "this" or "these", "on Monday" or "in the evening" depend on the next word.

The English is a function of the German. Time goes last unless it is fronted, and manner goes
before place. The perfect is a simple past ("bought"), except that "schon", "gerade" and "nie" make
it a present perfect ("has already bought"); "hatte" is a past perfect.
"""

import random
from collections.abc import Callable
from functools import partial
from typing import Annotated, NamedTuple, TypeAlias

from annotated_types import Ge, Le
from pydantic import AfterValidator

from simulmt.data import verbfinal_lexicon as lexicon
from simulmt.data.corpus import SPLITS, Corpus, Split
from simulmt.data.verbfinal_ends import sentence_ends
from simulmt.data.verbfinal_grammar import (
    Clause,
    English,
    LexicalWord,
    Phrase,
    draw_clause,
    draw_object,
    draw_subject,
    gloss,
    main_clause,
    maybe,
    subordinate_clause,
)

CorpusSize: TypeAlias = Annotated[int, Ge(0), Le(1_000_000)]
"""The number of sentence pairs of a split."""


def _far_apart(words: tuple[int, int]) -> tuple[int, int]:
    if words[1] - words[0] < 10:
        raise ValueError("it must be [least,most], with at least 10 words between them")
    return words


Words: TypeAlias = Annotated[
    tuple[Annotated[int, Ge(1)], Annotated[int, Le(150)]], AfterValidator(_far_apart)
]
"""The least and the most German words of a sentence, marks included."""


def past(rng: random.Random) -> Phrase:
    """The perfect as a simple past: "hat ... gekauft", "bought"."""
    clause, verb = draw_clause(rng, lexicon.PAST), rng.choice(lexicon.VERBS)
    finite = "haben" if clause.subject.plural else "hat"
    return main_clause(clause, gloss(f"{finite} {verb.perfect}", verb.past))


def present_perfect(rng: random.Random) -> Phrase:
    """The perfect with an adverb: "hat schon ... gekauft", "has already bought"."""
    aspect = gloss(*rng.choice(lexicon.ASPECTS))
    clause = draw_clause(rng, (), aspect=aspect.german)
    verb, plural = rng.choice(lexicon.VERBS), clause.subject.plural
    finite, participle = LexicalWord("haben" if plural else "hat"), LexicalWord(verb.perfect)
    has = English("have" if plural else "has", (finite, *aspect.german))
    bought = English(verb.past_participle, (participle,))
    return main_clause(clause, Phrase([finite, participle], [has, *aspect.english, bought]))


def past_perfect(rng: random.Random) -> Phrase:
    """The past perfect: "hatte ... gekauft", "had bought"."""
    clause, verb = draw_clause(rng, lexicon.PAST), rng.choice(lexicon.VERBS)
    finite = "hatten" if clause.subject.plural else "hatte"
    return main_clause(clause, gloss(f"{finite}|{verb.perfect}", f"had|{verb.past_participle}"))


def modal(rng: random.Random) -> Phrase:
    """A modal or future auxiliary: "will ... kaufen", "wants to buy"."""
    clause, verb = draw_clause(rng, lexicon.FUTURE), rng.choice(lexicon.VERBS)
    german, english = (forms[clause.subject.plural] for forms in rng.choice(lexicon.MODALS))
    return main_clause(clause, gloss(f"{german}|{verb.infinitive}", f"{english}|{verb.base}"))


def separable(rng: random.Random) -> Phrase:
    """A separable verb in the present tense: "macht ... auf", "opens"."""
    clause, verb = draw_clause(rng, lexicon.PRESENT), rng.choice(lexicon.SEPARABLE_VERBS)
    stem, english = verb.present(clause.subject.plural)
    return main_clause(clause, gloss(f"{stem} {verb.particle}", english))


def present(rng: random.Random, front: Phrase | None = None) -> Phrase:
    """A simple verb in the present tense; object, manner and place follow in both languages."""
    chance = 0.4 if front is None else 0.1
    place, manner = maybe(rng, chance, lexicon.PLACES), maybe(rng, chance, lexicon.MANNERS)
    if front is None:
        front = maybe(rng, chance, lexicon.PRESENT)
        if not front.german and rng.random() < 0.3:
            front, place = place, front
    subject = draw_subject(rng, lexicon.PERSONS)
    rest = draw_object(rng, subject)[0] + manner + place
    verb = rng.choice(lexicon.SIMPLE_VERBS).present(subject.plural)
    return main_clause(Clause(front, subject, rest), gloss(*verb))


def copula(rng: random.Random, front: Phrase | None = None) -> Phrase:
    """A form of "sein" with an adjective or a place: "ist", "is" or "war", "was"."""
    subject = draw_subject(rng, rng.choice((lexicon.PERSONS, lexicon.THINGS)))
    is_past = rng.random() < 0.4
    forms = (("war", "was"), ("waren", "were")) if is_past else (("ist", "is"), ("sind", "are"))
    if front is None:
        front = maybe(rng, 0.4, lexicon.PAST if is_past else lexicon.PRESENT)
    if rng.random() < 0.3:
        predicate = gloss(*rng.choice(lexicon.PLACES))
    else:
        predicate = maybe(rng, 0.4, lexicon.DEGREES) + gloss(*rng.choice(lexicon.ADJECTIVES))
    return main_clause(Clause(front, subject, predicate), gloss(*forms[subject.plural]))


def opinion(rng: random.Random) -> Phrase:
    """A main clause of knowing or saying, and a subordinate clause with "dass" or "warum"."""
    german, english = rng.choice(lexicon.OPINIONS)
    if rng.random() < 0.2:
        matrix = gloss(f"ich|{german[2]}", f"I|{english[2]}")
    else:
        subject = draw_subject(rng, lexicon.PERSONS)
        matrix = subject.phrase + gloss(german[subject.plural], english[subject.plural])
    clause = subordinate_clause(rng, *rng.choice(lexicon.CONJUNCTIONS))
    return matrix + gloss(",", "") + clause


def reason(rng: random.Random) -> Phrase:
    """A clause with "weil", before or after a parallel main clause."""
    because, main = subordinate_clause(rng, "weil", "because"), rng.choice((present, copula))
    if rng.random() < 0.5:
        return main(rng, because + gloss(",", ","))
    return main(rng, Phrase()) + gloss(",", "") + because


#: The constructions and their shares in percent.
CONSTRUCTIONS: dict[Callable[[random.Random], Phrase], int] = {
    past: 14,
    present_perfect: 7,
    past_perfect: 8,
    modal: 14,
    separable: 12,
    opinion: 11,
    reason: 10,
    present: 14,
    copula: 10,
}


class Pair(NamedTuple):
    """A sentence pair; `links[i]` are the 1-based German positions that English word i needs."""

    german: list[str]
    english: list[str]
    links: list[tuple[int, ...]]


def draw_construction(rng: random.Random) -> Callable[[random.Random], Phrase]:
    """A construction, drawn by the shares."""
    return rng.choices([*CONSTRUCTIONS], [*CONSTRUCTIONS.values()])[0]


def several_clauses(rng: random.Random, least: int) -> Phrase:
    """Constructions joined by "und" or "aber" until there are `least` German words or more."""
    phrase = draw_construction(rng)(rng)
    while len(phrase.german) + 1 < least:  # a full stop follows
        joint = rng.choice(((", und", ", and"), (", aber", ", but")))
        phrase += gloss(*joint) + draw_construction(rng)(rng)
    return phrase


def draw_pair(rng: random.Random, construction: Callable[[random.Random], Phrase]) -> Pair:
    """A sentence pair of a construction, with its word alignment."""
    phrase = construction(rng) + gloss(".", ".")
    position = {id(word): index for index, word in enumerate(phrase.german, 1)}
    return Pair(
        [word.text for word in phrase.german],
        [word.text for word in phrase.english],
        [tuple(sorted(position[id(link)] for link in word.links)) for word in phrase.english],
    )


def _draw_split(
    rng: random.Random, size: int, seen: set[str], unique: bool, words: Words | None
) -> Split:
    """`size` pairs whose sources are not in `seen`; with `unique`, each source is added to it."""
    sources, targets, links = list[str](), list[str](), list[list[tuple[int, ...]]]()
    while len(sources) < size:
        one = draw_construction(rng) if words is None else partial(several_clauses, least=words[0])
        pair = draw_pair(rng, one)
        source = " ".join(pair.german)
        if source in seen or (words and len(pair.german) > words[1]):
            continue
        if unique:
            seen.add(source)
        sources.append(source)
        targets.append(" ".join(pair.english))
        links.append(pair.links)
    return Split(sources, targets, links, ends=partial(sentence_ends, several=words is not None))


def verbfinal(
    seed: int,
    train: CorpusSize,
    valid: CorpusSize,
    test: CorpusSize,
    words: Words | None = None,
) -> Corpus:
    """The corpus of a seed: the same seed and sizes give the same corpus on every platform.

    The sources of `valid` and `test` are unique and occur in no other split; `train` repeats
    some of its shortest sentences.

    Args:
        seed: the seed of the random numbers.
        train: number of training pairs.
        valid: number of validation pairs.
        test: number of test pairs.
        words: the least and the most German words; None for sentences of one construction.
    """
    rng, seen = random.Random(seed), set[str]()
    sizes = {"test": test, "valid": valid, "train": train}  # in the order of drawing
    splits = {n: _draw_split(rng, s, seen, n != "train", words) for n, s in sizes.items()}
    return Corpus("verbfinal", "de", "en", {name: splits[name] for name in SPLITS})
