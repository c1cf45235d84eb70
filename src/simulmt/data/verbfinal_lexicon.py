"""The words of the embedded corpus `verbfinal`: German before English.

Adverbials divide into pieces at "|", and the pieces of both sides correspond one to one. Every
English word of a piece needs all German words of the piece: "on Monday" can begin only after
"am Montag" has been read, since "am Abend" is "in the evening".
"""

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


def _pairs(table: str) -> list[tuple[str, str]]:
    """The entries "German = English" of a table."""
    entries = [entry.split(" = ") for entry in table.split(";")]
    return [(german.strip(), english.strip()) for german, english in entries]


def _nouns(table: str) -> list[Noun]:
    return [Noun(*german.split(), *english.split()) for german, english in _pairs(table)]


def _verbs(table: str) -> list[Verb]:
    verbs = []
    for german, english in _pairs(table):
        *particle, plural, singular, participle = german.split()
        verbs.append(Verb("".join(particle), plural, singular, participle, *english.split()))
    return verbs


def _forms(table: str) -> list[tuple[list[str], list[str]]]:
    """The entries of a table, with the forms of both sides that commas separate."""
    return [(german.split(", "), english.split(", ")) for german, english in _pairs(table)]


PERSONS = _nouns("""
m Mann Männer = man men; m Arzt Ärzte = doctor doctors; m Bauer Bauern = farmer farmers;
m Junge Jungen = boy boys; m König Könige = king kings; m Bäcker Bäcker = baker bakers;
m Maler Maler = painter painters; m Gast Gäste = guest guests; m Onkel Onkel = uncle uncles;
f Frau Frauen = woman women; f Lehrerin Lehrerinnen = teacher teachers; f Tante Tanten = aunt aunts;
f Schwester Schwestern = sister sisters; f Tochter Töchter = daughter daughters;
f Königin Königinnen = queen queens; n Kind Kinder = child children
""")

THINGS = _nouns("""
m Koffer Koffer = suitcase suitcases; m Apfel Äpfel = apple apples; m Tisch Tische = table tables;
m Stuhl Stühle = chair chairs; m Schlüssel Schlüssel = key keys; m Ofen Öfen = oven ovens;
m Schirm Schirme = umbrella umbrellas; m Brief Briefe = letter letters; f Kiste Kisten = box boxes;
f Lampe Lampen = lamp lamps; f Tasche Taschen = bag bags; f Uhr Uhren = clock clocks;
f Flasche Flaschen = bottle bottles; f Maschine Maschinen = machine machines;
f Orange Orangen = orange oranges; n Buch Bücher = book books; n Bild Bilder = picture pictures;
n Fahrrad Fahrräder = bicycle bicycles; n Radio Radios = radio radios;
n Paket Pakete = parcel parcels; n Ei Eier = egg eggs; n Boot Boote = boat boats
""")

#: First names with their possessives.
NAMES = [("Anna", "her"), ("Maria", "her"), ("Peter", "his"), ("Paul", "his")]

ADJECTIVES = _pairs("""
alt = old; neu = new; klein = small; groß = big; schön = beautiful; hässlich = ugly;
seltsam = strange; schmutzig = dirty; lustig = funny
""")

SIMPLE_VERBS = _verbs("""
kaufen kauft gekauft = buy buys bought bought; verkaufen verkauft verkauft = sell sells sold sold;
suchen sucht gesucht = seek seeks sought sought; finden findet gefunden = find finds found found;
verlieren verliert verloren = lose loses lost lost; sehen sieht gesehen = see sees saw seen;
malen malt gemalt = paint paints painted painted;
zeichnen zeichnet gezeichnet = draw draws drew drawn;
stehlen stiehlt gestohlen = steal steals stole stolen;
vergessen vergisst vergessen = forget forgets forgot forgotten;
waschen wäscht gewaschen = wash washes washed washed;
verstecken versteckt versteckt = hide hides hid hidden;
reparieren repariert repariert = repair repairs repaired repaired;
zerbrechen zerbricht zerbrochen = break breaks broke broken;
beschreiben beschreibt beschrieben = describe describes described described;
wählen wählt gewählt = choose chooses chose chosen
""")

#: Four stems with four particles each: sixteen meanings. No stem is a simple verb.
SEPARABLE_VERBS = _verbs("""
auf machen macht gemacht = open opens opened opened;
zu machen macht gemacht = close closes closed closed;
nach machen macht gemacht = imitate imitates imitated imitated;
kaputt machen macht gemacht = ruin ruins ruined ruined;
an nehmen nimmt genommen = accept accepts accepted accepted;
mit nehmen nimmt genommen = take takes took taken;
ab nehmen nimmt genommen = remove removes removed removed;
zurück nehmen nimmt genommen = reclaim reclaims reclaimed reclaimed;
auf bauen baut gebaut = assemble assembles assembled assembled;
ab bauen baut gebaut = dismantle dismantles dismantled dismantled;
um bauen baut gebaut = rebuild rebuilds rebuilt rebuilt;
nach bauen baut gebaut = replicate replicates replicated replicated;
her stellen stellt gestellt = produce produces produced produced;
aus stellen stellt gestellt = exhibit exhibits exhibited exhibited;
vor stellen stellt gestellt = present presents presented presented;
um stellen stellt gestellt = move moves moved moved
""")

VERBS = SIMPLE_VERBS + SEPARABLE_VERBS

#: Singular and plural of the modals and of the future auxiliary.
MODALS = _forms("""
will, wollen = wants to, want to; möchte, möchten = would like to, would like to;
kann, können = can, can; muss, müssen = must, must; soll, sollen = should, should;
darf, dürfen = may, may; wird, werden = will, will
""")

#: Verbs of knowing and saying: third person singular and plural, first person singular.
OPINIONS = _forms("""
weiß, wissen, weiß = knows, know, know; sagt, sagen, sage = says, say, say;
erklärt, erklären, erkläre = explains, explain, explain;
versteht, verstehen, verstehe = understands, understand, understand
""")

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

#: No adverbial begins with a separable particle: with "auf dem Markt", a reader of "macht den
#: Koffer auf" could not know whether the verb is complete.
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

DEGREES = _pairs("sehr = very; nicht = not; wirklich = really")

#: Determiners by their English word: German forms, then the endings of an adjective that follows.
#: Columns: nominative masculine, feminine, neuter, plural; then the same for the accusative.
DETERMINERS = {
    english: (forms.split(), endings.split())
    for english, forms, endings in (
        ("the", "der die das die den die das die", "e e e en en e e en"),
        ("this", "dieser diese dieses diese diesen diese dieses diese", "e e e en en e e en"),
        ("a", "ein eine ein - einen eine ein -", "er e es e en e es e"),
        ("his", "sein seine sein seine seinen seine sein seine", "er e es en en e es en"),
        ("her", "ihr ihre ihr ihre ihren ihre ihr ihre", "er e es en en e es en"),
        ("their", "ihr ihre ihr ihre ihren ihre ihr ihre", "er e es en en e es en"),
    )
}
