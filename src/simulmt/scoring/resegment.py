"""Re-segmentation: which reference segment each word of a stream's translation belongs to.

A stream is translated without sentence boundaries. Before it can be scored sentence by sentence,
its words are divided among the segments of the reference, in order and without losing any.
"""

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from simulmt.ops.compiled import compiled

Tokenize: TypeAlias = Callable[[str], Sequence[str]]
"""Returns the tokens of a word, at least one."""
Row: TypeAlias = Float[np.ndarray, "K"]
"""The similarity of one reference token to each of K different tokens."""
Places: TypeAlias = Int[np.ndarray, "M"]
"""For each of M tokens of the translation, an index from 0."""
Moves: TypeAlias = Bool[np.ndarray, "2 M"]
"""For each of M tokens, True if the path goes through a match, and else through a deletion."""
PUNCTUATION = frozenset(".!?,;:-()。！？，；：—（）ー")
"""The punctuation of the soft segmenter."""


def levenshtein(words: Sequence[str], references: Sequence[str]) -> list[int]:
    """Return the segment of each word, from 0, by the smallest edit distance to the references.

    Words are compared in lower case without punctuation; a word of punctuation alone stays whole.
    Among alignments of equal cost, the path back from the end prefers a match, then a deletion,
    then an insertion, then a substitution. An inserted word belongs to the segment of the reference
    word before it.

    Args:
        words: The words of the whole translation.
        references: The text of each segment, at least one; may be empty.
    """
    bare = [*map(_bare, words)]
    gold = [(_bare(word), n) for n, text in enumerate(references) for word in text.split()]
    kinds = {word: n for n, word in enumerate(dict.fromkeys(bare))}
    ids = np.arange(len(kinds))
    rows = (np.where(ids == kinds.get(word, -1), 0.0, -1.0) for word, _ in gold)
    owners, _ = _align(rows, np.array([kinds[word] for word in bare], dtype=np.int64), gap=1)
    segments = [n for _, n in gold] or [0]
    return [segments[max(owner, 0)] for owner in owners]


def _bare(word: str) -> str:
    """Return a word in NFC and lower case without punctuation; only punctuation stays whole."""
    lower = unicodedata.normalize("NFC", word).lower()
    return "".join(sign for sign in lower if unicodedata.category(sign)[0] != "P") or lower


def soft(
    words: Sequence[str], references: Sequence[str], tokenize: Tokenize, exact: bool = False
) -> list[int]:
    r"""Return the segment of each word, from 0, by OmniSTEval's SoftSegmenter.

    The alignment maximises the sum of the similarities of matched tokens; a gap costs nothing. The
    similarity of two tokens is that of their sets of characters, :math:`|a \cap b| / |a \cup b|`,
    and minus infinity between punctuation and other tokens. Ties are broken as in `levenshtein`. An
    unmatched token belongs to the reference token before it on the path or, if that is strictly
    more similar, to the next one; the unmatched tokens between it and the next one follow it. A
    word belongs where its first token does. Polák et al. (2025), "Better Late Than Never".

    SoftSegmenter loses unmatched words before the first reference token if minus infinity is their
    similarity to it. Here they belong to the first token.

    Args:
        words: The words of the whole translation.
        references: The text of each segment, at least one; may be empty.
        tokenize: Splits a word in NFKC and lower case into tokens.
        exact: True for a similarity of 1 between equal tokens and 0 between others, as OmniSTEval
            has it for characters.
    """
    cut = [tokenize(unicodedata.normalize("NFKC", word).lower()) for word in words]
    texts = [unicodedata.normalize("NFKC", text).lower() for text in references]
    gold = [(t, n) for n, text in enumerate(texts) for word in text.split() for t in tokenize(word)]
    if not gold:
        return [0] * len(words)
    kinds = {token: n for n, token in enumerate(dict.fromkeys(t for tokens in cut for t in tokens))}
    places = np.array([kinds[token] for tokens in cut for token in tokens], dtype=np.int64)
    similar = _similarity([*kinds], exact)
    owners, matched = _align((similar(token) for token, _ in gold), places, gap=0)
    ahead, segments = -1, list[int]()  # unmatched tokens after the token `ahead` follow the next
    for owner, kind, match in zip(owners, places, matched, strict=True):
        free = not match and owner + 1 < len(gold)
        if free and (
            owner < 0 or similar(gold[owner + 1][0])[kind] > similar(gold[owner][0])[kind]
        ):
            ahead = owner
        segments.append(gold[owner + (free and ahead == owner)][1])
    firsts = np.cumsum([0, *map(len, cut)])[:-1]
    return [segments[first] for first in firsts]


def _similarity(kinds: Sequence[str], exact: bool) -> Callable[[str], Row]:
    """Return a function that returns the similarity of a token to each of some tokens."""
    signs = {sign: n for n, sign in enumerate(sorted({*"".join(kinds)}))}
    holds = np.array([[sign in token for token in kinds] for sign in signs], dtype=float)
    sizes = holds.sum(axis=0)
    punctuation = np.array([token in PUNCTUATION for token in kinds], dtype=bool)

    def similar(token: str) -> Row:
        own = {*token}
        shared = holds[[signs[sign] for sign in own if sign in signs]].sum(axis=0)
        apart = punctuation != (token in PUNCTUATION)
        same = [float(kind == token) for kind in kinds] if exact else None
        return np.where(apart, -np.inf, same or shared / (sizes + len(own) - shared))

    return similar


def _align(rows: Iterable[Row], places: Places, gap: float) -> tuple[list[int], list[bool]]:
    """Return, for each token, the last reference token up to it on the best path; True if matched.

    The path has the largest sum of similarities, less `gap` for each unmatched token of a side.

    Args:
        rows: The similarities of each reference token.
        places: The column of each token of the translation.
        gap: The cost of an unmatched token.

    Returns:
        Indices from 0, and -1 before the first reference token.
    """
    best, moves = -gap * np.arange(len(places) + 1.0), list[Int[np.ndarray, "2 M/8"]]()
    move = np.empty((2, len(places)), dtype=bool)
    for row in rows:
        _next_row(row, places, gap, best, move)
        moves.append(np.packbits(move, axis=1))  # a quarter of a byte for each pair of tokens
    owners, matched = [-1] * len(places), [False] * len(places)
    i, j = len(moves), len(places)
    while i and j:
        match, delete = (moves[i - 1][:, (j - 1) // 8] << (j - 1) % 8 & 128).tolist()
        if match or not delete:
            j -= 1
            owners[j], matched[j] = i - 1, bool(match)
        i -= bool(match or delete)
    return owners, matched


@compiled
def _next_row(row: Row, places: Places, gap: float, best: Row, move: Moves) -> None:
    """Replace the values of a row of the alignment by those of the next row.

    `move` gets True where the path goes through a match, and where it would go through a deletion
    otherwise. A negative similarity is a substitution, which a gap of the same cost precedes.
    """
    diagonal = best[0]
    best[0] -= gap
    for j in range(len(places)):
        similarity = row[places[j]]
        match, delete, insert = diagonal + similarity, best[j + 1] - gap, best[j] - gap
        diagonal, other = best[j + 1], max(delete, insert)
        move[0, j] = match > other or (match == other and similarity >= 0)
        move[1, j] = delete >= insert
        best[j + 1] = max(match, other)
