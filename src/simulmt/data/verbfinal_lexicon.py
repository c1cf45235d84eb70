"""The words of the built-in corpus `verbfinal`, German before English, from `verbfinal.tsv`."""

from pathlib import Path
from typing import NamedTuple


class Noun(NamedTuple):
    """A countable noun; `gender` is m, f or n."""

    gender: str
    singular: str
    plural: str
    english: str
    english_plural: str


class Verb(NamedTuple):
    """A transitive verb with the auxiliary "haben"; `particle` is "" unless it is separable.

    The German forms are those of the stem: "machen" for "aufmachen".
    """

    particle: str
    plural: str
    singular: str
    participle: str
    base: str
    third: str
    past: str
    past_participle: str

    @property
    def infinitive(self) -> str:
        """The German infinitive with its particle: "aufmachen"."""
        return self.particle + self.plural

    @property
    def perfect(self) -> str:
        """The German participle with its particle: "aufgemacht"."""
        return self.particle + self.participle

    def present(self, plural: bool) -> tuple[str, str]:
        """The German stem and the English verb in the third person of the present tense."""
        return (self.plural, self.base) if plural else (self.singular, self.third)


_LINES = Path(__file__).with_name("verbfinal.tsv").read_text(encoding="utf-8").splitlines()
ROWS = [(line.split("\t")[0], line.split("\t")[1:]) for line in _LINES if line[0] != "#"]
"""All entries, each with the name of its table."""


def _table(name: str) -> list[list[str]]:
    return [entry for table, entry in ROWS if table == name]


def _pairs(name: str) -> list[tuple[str, str]]:
    return [(german, english) for german, english in _table(name)]


def _forms(name: str) -> list[tuple[list[str], list[str]]]:
    """The entries of a table, each halved into the forms of both languages."""
    return [(row[: len(row) // 2], row[len(row) // 2 :]) for row in _table(name)]


PERSONS = [Noun(*row) for row in _table("persons")]
THINGS = [Noun(*row) for row in _table("things")]
NAMES = _pairs("names")
ADJECTIVES = _pairs("adjectives")
SIMPLE_VERBS = [Verb(*row) for row in _table("simple_verbs")]
SEPARABLE_VERBS = [Verb(*row) for row in _table("separable_verbs")]
VERBS = SIMPLE_VERBS + SEPARABLE_VERBS
MODALS = _forms("modals")
OPINIONS = _forms("opinions")
CONJUNCTIONS = _pairs("conjunctions")
ASPECTS = _pairs("aspects")
PAST = _pairs("past")
PRESENT = _pairs("present")
FUTURE = _pairs("future")
MANNERS = _pairs("manners")
PLACES = _pairs("places")
DEGREES = _pairs("degrees")
DETERMINERS = {name: (forms.split(), ends.split()) for name, forms, ends in _table("determiners")}
"""By their English word: German forms by case, gender and number, and endings of adjectives."""
