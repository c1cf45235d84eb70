"""The words of the `verbfinal` corpus: plain data, German before English.

Adverbials divide into pieces by "|": the pieces of both sides correspond one to one, and every
English word of a piece needs all German words of it ("am Montag" must be read whole before
"on Monday" can begin, for "am Abend" is "in the evening").
"""

from __future__ import annotations

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

    German forms are those of the bare stem: "machen" for "aufmachen".
    """

    particle: str
    plural: str
    singular: str
    participle: str
    base: str
    third: str
    past: str
    past_participle: str


def _rows(table: str) -> list[list[str]]:
    """The lines of a table, each split at white space."""
    return [line.split() for line in table.strip().splitlines()]


def _pairs(table: str) -> list[tuple[str, str]]:
    """The entries "German = English" of a table, divided by ";"."""
    entries = [entry.split(" = ") for entry in table.split(";")]
    return [(german.strip(), english.strip()) for german, english in entries]


PERSONS = [
    Noun(*row)
    for row in _rows("""
m Mann Männer man men
m Arzt Ärzte doctor doctors
m Bauer Bauern farmer farmers
m Junge Jungen boy boys
m König Könige king kings
m Bäcker Bäcker baker bakers
m Maler Maler painter painters
m Gast Gäste guest guests
m Onkel Onkel uncle uncles
f Frau Frauen woman women
f Lehrerin Lehrerinnen teacher teachers
f Tante Tanten aunt aunts
f Schwester Schwestern sister sisters
f Tochter Töchter daughter daughters
f Königin Königinnen queen queens
n Kind Kinder child children
""")
]

THINGS = [
    Noun(*row)
    for row in _rows("""
m Koffer Koffer suitcase suitcases
m Apfel Äpfel apple apples
m Tisch Tische table tables
m Stuhl Stühle chair chairs
m Schlüssel Schlüssel key keys
m Ofen Öfen oven ovens
m Schirm Schirme umbrella umbrellas
m Brief Briefe letter letters
f Kiste Kisten box boxes
f Lampe Lampen lamp lamps
f Tasche Taschen bag bags
f Uhr Uhren clock clocks
f Flasche Flaschen bottle bottles
f Maschine Maschinen machine machines
f Orange Orangen orange oranges
n Buch Bücher book books
n Bild Bilder picture pictures
n Fahrrad Fahrräder bicycle bicycles
n Radio Radios radio radios
n Paket Pakete parcel parcels
n Ei Eier egg eggs
n Boot Boote boat boats
""")
]

#: First names and the possessive that refers back to them.
NAMES = [("Anna", "her"), ("Maria", "her"), ("Peter", "his"), ("Paul", "his")]

ADJECTIVES = _pairs("""
alt = old; neu = new; klein = small; groß = big; schön = beautiful; hässlich = ugly;
seltsam = strange; schmutzig = dirty; lustig = funny
""")

SIMPLE_VERBS = [
    Verb("", *row)
    for row in _rows("""
kaufen kauft gekauft buy buys bought bought
verkaufen verkauft verkauft sell sells sold sold
suchen sucht gesucht seek seeks sought sought
finden findet gefunden find finds found found
verlieren verliert verloren lose loses lost lost
sehen sieht gesehen see sees saw seen
malen malt gemalt paint paints painted painted
zeichnen zeichnet gezeichnet draw draws drew drawn
stehlen stiehlt gestohlen steal steals stole stolen
vergessen vergisst vergessen forget forgets forgot forgotten
waschen wäscht gewaschen wash washes washed washed
verstecken versteckt versteckt hide hides hid hidden
reparieren repariert repariert repair repairs repaired repaired
zerbrechen zerbricht zerbrochen break breaks broke broken
beschreiben beschreibt beschrieben describe describes described described
wählen wählt gewählt choose chooses chose chosen
""")
]

#: Four stems with four particles each, all different in meaning; no stem is a simple verb.
SEPARABLE_VERBS = [
    Verb(particle, *stem.split(), *english)
    for stem, table in {
        "machen macht gemacht": """
auf open opens opened opened
zu close closes closed closed
nach imitate imitates imitated imitated
kaputt ruin ruins ruined ruined
""",
        "nehmen nimmt genommen": """
an accept accepts accepted accepted
mit take takes took taken
ab remove removes removed removed
zurück reclaim reclaims reclaimed reclaimed
""",
        "bauen baut gebaut": """
auf assemble assembles assembled assembled
ab dismantle dismantles dismantled dismantled
um rebuild rebuilds rebuilt rebuilt
nach replicate replicates replicated replicated
""",
        "stellen stellt gestellt": """
her produce produces produced produced
aus exhibit exhibits exhibited exhibited
vor present presents presented presented
um move moves moved moved
""",
    }.items()
    for particle, *english in _rows(table)
]

VERBS = SIMPLE_VERBS + SEPARABLE_VERBS

#: Singular and plural of the modals and of the future auxiliary.
MODALS = [
    (("will", "wollen"), ("wants to", "want to")),
    (("möchte", "möchten"), ("would like to", "would like to")),
    (("kann", "können"), ("can", "can")),
    (("muss", "müssen"), ("must", "must")),
    (("soll", "sollen"), ("should", "should")),
    (("darf", "dürfen"), ("may", "may")),
    (("wird", "werden"), ("will", "will")),
]

#: Third person singular, plural and first person singular of the verbs of knowing and saying.
OPINIONS = [
    (("weiß", "wissen", "weiß"), ("knows", "know", "know")),
    (("sagt", "sagen", "sage"), ("says", "say", "say")),
    (("erklärt", "erklären", "erkläre"), ("explains", "explain", "explain")),
    (("versteht", "verstehen", "verstehe"), ("understands", "understand", "understand")),
]

CONJUNCTIONS = [("dass", "that"), ("warum", "why")]

#: The adverbs that make a German perfect an English present perfect.
ASPECTS = [("schon", "already"), ("gerade", "just"), ("nie", "never")]

PAST = _pairs("""
gestern = yesterday; heute = today; letzte|Woche = last|week; letzten|Monat = last|month;
am Montag = on Monday; am Freitag = on Friday
""")

PRESENT = _pairs("""
heute = today; jeden|Tag = every|day; jede|Woche = every|week; am Abend = in the evening;
am Montag = on Monday; im Winter = in winter
""")

FUTURE = _pairs("""
morgen = tomorrow; bald = soon; nächste|Woche = next|week; nächsten|Monat = next|month;
am Abend = in the evening; am Freitag = on Friday
""")

#: No circumstance begins with a separable particle: "auf dem Markt" would leave open, when only
#: "macht den Koffer auf" is read, whether the verb is complete.
MANNERS = _pairs("""
heimlich = secretly; langsam = slowly; vorsichtig = carefully; wieder = again;
ohne|Hilfe = without|help; zum Spaß = for fun; zum Trost = as a comfort
""")

PLACES = _pairs("""
im Garten = in the garden; im Büro = at the office; im Zug = on the train;
in der Küche = in the kitchen; in der Schule = at school; am Bahnhof = at the station;
am See = by the lake; am Strand = on the beach; hinter|dem|Haus = behind|the|house;
neben|der|Kirche = beside|the|church; unter|der|Brücke = under|the|bridge;
daheim = at home; draußen = outside
""")

DEGREES = _pairs("""
sehr = very; nicht = not; wirklich = really
""")

#: Determiners by their English word: German forms, then the endings of adjectives after them.
#: Columns: nominative masculine, feminine, neuter, plural; the same for the accusative.
DETERMINERS = {
    english: (cells[:8], cells[8:])
    for english, *cells in _rows("""
the   der    die   das    die    den    die   das    die    e  e e  en  en e e  en
this  dieser diese dieses diese  diesen diese dieses diese  e  e e  en  en e e  en
a     ein    eine  ein    -      einen  eine  ein    -      er e es e   en e es e
his   sein   seine sein   seine  seinen seine sein   seine  er e es en  en e es en
her   ihr    ihre  ihr    ihre   ihren  ihre  ihr    ihre   er e es en  en e es en
their ihr    ihre  ihr    ihre   ihren  ihre  ihr    ihre   er e es en  en e es en
""")
}
