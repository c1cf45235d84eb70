"""One alignment from two: source to target and target to source."""

from collections.abc import Callable, Mapping
from itertools import product

from simulmt.alignment.links import Links


def intersection(forward: Links, backward: Links) -> Links:
    """The links of both directions: few, and mostly right."""
    return forward & backward


def grow_diag_final_and(forward: Links, backward: Links) -> Links:
    """The intersection, extended by links of the union (Koehn et al. 2003; Koehn et al. 2005).

    1. Begin with the intersection.
    2. Grow: add links of the union that touch a link, also diagonally, and link a word on either
       side that has no link yet; repeat until there are none.
    3. Final-and: add links of the forward, then of the backward direction, if neither of their
       words has a link yet.

    Links are added in sorted order, so equal directions give equal alignments.
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
            for near in product((i - 1, i, i + 1), (j - 1, j, j + 1)):
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
"""The ways to combine both directions, by name."""
