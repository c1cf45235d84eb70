"""The alignment error rate: the distance of an alignment from one made by hand."""

from collections.abc import Iterable

from simulmt.alignment.links import Gold, Links


def error_rate(alignments: Iterable[Links], gold: Iterable[Gold]) -> dict[str, float | None]:
    r"""Alignment error rate over a whole corpus (Och and Ney 2003; Luong et al. 2015, table 6).

    .. math:: AER = 1 - \frac{|A \cap S| + |A \cap P|}{|A| + |S|}

    with the links A to judge, the sure links S and the possible links P, which include S.
    Precision is :math:`|A \cap P| / |A|`, recall :math:`|A \cap S| / |S|`.

    Args:
        alignments: A of each sentence pair.
        gold: S and P of each sentence pair.

    Returns:
        `AER`, `precision` and `recall`, None where undefined, and |A| as `links`.
    """
    links = in_sure = in_possible = sure = 0
    for a, (s, p) in zip(alignments, gold, strict=True):
        links, sure = links + len(a), sure + len(s)
        in_sure, in_possible = in_sure + len(a & s), in_possible + len(a & p)
    return {
        "AER": 1 - (in_sure + in_possible) / (links + sure) if links + sure else None,
        "precision": in_possible / links if links else None,
        "recall": in_sure / sure if sure else None,
        "links": links,
    }
