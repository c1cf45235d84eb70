"""One alignment from two: an aligner links every target word to a source word, and vice versa."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from simulmt.alignment.links import Links

_NEIGHBOURS = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]


def intersection(forward: Links, backward: Links) -> Links:
    """What both directions agree on: few links, and mostly right."""
    return forward & backward


def grow_diag_final_and(forward: Links, backward: Links) -> Links:
    """From what both agree on to what either says (Koehn et al. 2003; Koehn et al. 2005).

    1. Begin with the intersection.
    2. Grow: add links of the union that touch a link, diagonally too, and link a word on either
       side that has none yet; until there are none.
    3. Final-and: add links of the forward, then of the backward direction, both of whose words
       have none yet.

    Links are taken in order, so the same two directions give the same alignment.
    """
    union, links = forward | backward, set(forward & backward)
    sources, targets = {i for i, _ in links}, {j for _, j in links}

    def add(link: tuple[int, int]) -> None:
        links.add(link)
        sources.add(link[0])
        targets.add(link[1])

    size = -1
    while size != len(links):
        size = len(links)
        for i, j in sorted(links):
            for down, right in _NEIGHBOURS:
                near = (i + down, j + right)
                free = near[0] not in sources or near[1] not in targets
                if near in union and near not in links and free:
                    add(near)
    for direction in (forward, backward):
        for link in sorted(direction):
            if link[0] not in sources and link[1] not in targets:
                add(link)
    return frozenset(links)


SYMMETRISE: Mapping[str, Callable[[Links, Links], Links]] = {
    "grow-diag-final-and": grow_diag_final_and,
    "intersection": intersection,
}
"""By name."""
