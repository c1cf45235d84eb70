"""The embedded corpus: German-English sentences whose German verb often comes last.

A small grammar (`verbfinal_grammar`) builds both languages at once, with their word alignment;
here are the constructions that put a sentence together, and the corpus drawn from them.

What makes the corpus hard to translate while it is being read:

- In the perfect, after a modal, with a separable verb and in a subordinate clause the German
  verb (or the particle that decides its meaning) follows objects and 0 to 3 adverbials, while
  the English verb follows the subject. Verbs are drawn independently of everything before them.
- Other sentences run in parallel, so no fixed schedule fits all.
- "a" or "an", "this" or "these", "on Monday" or "in the evening" hang on the next word.

The English is a function of the German: the time goes last unless it is fronted, manner goes
before place, and the perfect is a simple past ("bought") unless "schon", "gerade" or "nie" makes it
a present perfect ("has already bought"); "hatte" is a past perfect.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import accumulate
from typing import NamedTuple

from simulmt.data import verbfinal_lexicon as lexicon
from simulmt.data.corpus import SPLITS, Corpus, Split
from simulmt.data.verbfinal_grammar import (
    Content,
    English,
    Phrase,
    Word,
    draw_content,
    draw_object,
    draw_participle,
    draw_subject,
    gloss,
    main_clause,
    maybe,
    nothing,
    subordinate_clause,
)
from simulmt.errors import UserError

SIZE_LIMIT = 1_000_000


def past(rng: random.Random) -> Phrase:
    """The perfect as a simple past: "hat ... gekauft", "bought"."""
    content = draw_content(rng, lexicon.PAST)
    participle, verb = draw_participle(rng)
    finite = Word("haben" if content.subject.plural else "hat")
    return main_clause(content, finite, [participle], [English(verb.past, (finite, participle))])


def present_perfect(rng: random.Random) -> Phrase:
    """The perfect with an adverb: "hat schon ... gekauft", "has already bought"."""
    aspect = gloss(*rng.choice(lexicon.ASPECTS))
    content = draw_content(rng, (), aspect=aspect.german[0])
    participle, verb = draw_participle(rng)
    plural = content.subject.plural
    finite = Word("haben" if plural else "hat")
    has = English("have" if plural else "has", (finite, *aspect.german))
    bought = English(verb.past_participle, (participle,))
    return main_clause(content, finite, [participle], [has, *aspect.english, bought])


def past_perfect(rng: random.Random) -> Phrase:
    """The past perfect: "hatte ... gekauft", "had bought"."""
    content = draw_content(rng, lexicon.PAST)
    participle, verb = draw_participle(rng)
    finite = Word("hatten" if content.subject.plural else "hatte")
    bought = English(verb.past_participle, (participle,))
    return main_clause(content, finite, [participle], [English("had", (finite,)), bought])


def modal(rng: random.Random) -> Phrase:
    """A modal or future auxiliary: "will ... kaufen", "wants to buy"."""
    content = draw_content(rng, lexicon.FUTURE)
    verb, (german, english) = rng.choice(lexicon.VERBS), rng.choice(lexicon.MODALS)
    auxiliary = gloss(german[content.subject.plural], english[content.subject.plural])
    infinitive = Word(verb.particle + verb.plural)
    buy = English(verb.base, (infinitive,))
    return main_clause(content, auxiliary.german[0], [infinitive], [*auxiliary.english, buy])


def separable(rng: random.Random) -> Phrase:
    """A separable verb in the present tense: "macht ... auf", "opens"."""
    content = draw_content(rng, lexicon.PRESENT)
    verb, plural = rng.choice(lexicon.SEPARABLE_VERBS), content.subject.plural
    stem, particle = Word(verb.plural if plural else verb.singular), Word(verb.particle)
    opens = English(verb.base if plural else verb.third, (stem, particle))
    return main_clause(content, stem, [particle], [opens])


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
    verb = rng.choice(lexicon.SIMPLE_VERBS)
    finite = Word(verb.plural if subject.plural else verb.singular)
    buys = English(verb.base if subject.plural else verb.third, (finite,))
    return main_clause(Content(front, subject, rest.german, rest.english), finite, [], [buys])


def copula(rng: random.Random, front: Phrase | None = None) -> Phrase:
    """Someone or something is, or was, somehow or somewhere."""
    subject = draw_subject(rng, rng.choice((lexicon.PERSONS, lexicon.THINGS)))
    number, is_past = subject.plural, rng.random() < 0.4
    forms = (("war", "waren"), ("was", "were")) if is_past else (("ist", "sind"), ("is", "are"))
    finite = gloss(forms[0][number], forms[1][number])
    if front is None:
        front = maybe(rng, 0.4, lexicon.PAST if is_past else lexicon.PRESENT)
    if rng.random() < 0.3:
        predicate = gloss(*rng.choice(lexicon.PLACES))
    else:
        predicate = maybe(rng, 0.4, lexicon.DEGREES) + gloss(*rng.choice(lexicon.ADJECTIVES))
    content = Content(front, subject, predicate.german, predicate.english)
    return main_clause(content, finite.german[0], [], finite.english)


def opinion(rng: random.Random) -> Phrase:
    """Someone knows or says that, or why, and a subordinate clause."""
    german, english = rng.choice(lexicon.OPINIONS)
    if rng.random() < 0.2:
        matrix = gloss("ich", "I") + gloss(german[2], english[2])
    else:
        subject = draw_subject(rng, lexicon.PERSONS)
        matrix = subject.phrase + gloss(german[subject.plural], english[subject.plural])
    comma = Phrase([Word(",")], [])
    return matrix + comma + subordinate_clause(rng, *rng.choice(lexicon.CONJUNCTIONS))


def reason(rng: random.Random) -> Phrase:
    """A clause with "weil", before or after a parallel main clause."""
    because, main = subordinate_clause(rng, "weil", "because"), rng.choice((present, copula))
    if rng.random() < 0.5:
        return main(rng, because + gloss(",", ","))
    return main(rng, nothing()) + Phrase([Word(",")], []) + because


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
_RULES, _SHARES = list(CONSTRUCTIONS), list(accumulate(CONSTRUCTIONS.values()))


class Pair(NamedTuple):
    """A sentence pair; `alignment[i]` holds the 1-based German positions English word i needs."""

    german: list[str]
    english: list[str]
    alignment: list[tuple[int, ...]]


def draw_rule(rng: random.Random) -> Callable[[random.Random], Phrase]:
    """One of the constructions, by their shares."""
    return rng.choices(_RULES, cum_weights=_SHARES)[0]


def draw_pair(rng: random.Random, rule: Callable[[random.Random], Phrase]) -> Pair:
    """One sentence pair of a construction, with its word alignment."""
    phrase = rule(rng) + gloss(".", ".")
    position = {id(word): index for index, word in enumerate(phrase.german, 1)}
    return Pair(
        [word.text for word in phrase.german],
        [word.text for word in phrase.english],
        [tuple(sorted(position[id(link)] for link in word.links)) for word in phrase.english],
    )


def _draw_split(rng: random.Random, size: int, avoid: set[str], unique: bool) -> Split:
    """Draw `size` pairs whose sources are not in `avoid` and, if asked, differ."""
    sources: list[str] = []
    targets: list[str] = []
    links: list[list[tuple[int, ...]]] = []
    seen = set(avoid)
    while len(sources) < size:
        pair = draw_pair(rng, draw_rule(rng))
        source = " ".join(pair.german)
        if source in seen:
            continue
        if unique:
            seen.add(source)
        sources.append(source)
        targets.append(" ".join(pair.english))
        links.append(pair.alignment)
    return Split(sources, targets, links)


def verbfinal(seed: int, train: int, valid: int, test: int) -> Corpus:
    """Draw the corpus.

    The sources of `valid` and `test` are unique and occur in no other split; `train` repeats
    its shortest sentences now and then.

    Args:
        seed: the same seed and sizes give the same corpus on every platform.
        train: number of training pairs.
        valid: number of validation pairs.
        test: number of test pairs.

    Raises:
        UserError: a size is negative or above `SIZE_LIMIT`.
    """
    sizes = {"train": train, "valid": valid, "test": test}
    for name, size in sizes.items():
        if not 0 <= size <= SIZE_LIMIT:
            raise UserError(
                f"verbfinal: {name}={size} sentence pairs, but a split holds 0 to {SIZE_LIMIT}: "
                f"choose {name} in that range"
            )
    rng = random.Random(seed)
    splits: dict[str, Split] = {}
    avoid: set[str] = set()
    for name in reversed(SPLITS):
        splits[name] = _draw_split(rng, sizes[name], avoid, unique=name != "train")
        avoid.update(splits[name].sources)
    return Corpus("verbfinal", "de", "en", {name: splits[name] for name in sizes})
