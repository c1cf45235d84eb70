"""Published figures that a report compares with: CSV files such as those in `experiments`."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from simulmt.analysis.tables.points import Point, Series
from simulmt.errors import UserError
from simulmt.options import Finite, convert, pick


def read_published(
    names: Sequence[str], latency: str, unit: str, folder: Path
) -> tuple[list[Series], list[str]]:
    """Return the lines of the published points with a latency in a unit.

    The name of a line tells the kind of BLEU.

    Args:
        names: CSV files, or their names in the folder: `milk/table5`. The columns are `system`,
            `BLEU`, `BLEU_kind`, `latency_unit`, and one for each latency.
        latency: Such as DAL.
        unit: `word`, `character` or `subword`.
        folder: The folder of published figures, `experiments`.

    Returns:
        The lines, and a note for each system whose latency has another unit.

    Raises:
        UserError: a file does not exist, or is corrupt.
    """
    lines: dict[tuple[Path, str], list[Point]] = {}
    notes: dict[str, None] = {}
    files = [x for x in sorted(folder.glob("*/*.csv")) if x.read_bytes().startswith(b"system,")]
    known = {file.relative_to(folder).with_suffix("").as_posix(): file for file in files}
    for name in names:
        path = Path(name).expanduser() if name.endswith(".csv") else pick(known, name, "published")
        try:
            with path.open(newline="", encoding="utf-8-sig") as file:
                rows = [_parse(row, latency) for row in csv.DictReader(file)]
        except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
            why = f"published={name} cannot be read ({type(error).__name__}: {error})"
            raise UserError(f"{why}; it needs columns system, BLEU, and one per latency") from None
        for system, kind, own, point in rows:
            if point and own == unit:
                line = path, f"{system}, published ({kind} BLEU)"
                lines.setdefault(line, []).append(point)
            elif point:
                notes[f"{path.stem}, {system}: its unit of latency is {own}"] = None
    found = [Series(name, line, kind="published") for (_, name), line in lines.items()]
    return found, [*notes]


def _parse(row: Mapping[str, str], latency: str) -> tuple[str, str, str, Point | None]:
    """Return the system, the kind of BLEU, the unit, and the point, None without that latency."""
    kind, unit = (row.get(key) or "not stated" for key in ("BLEU_kind", "latency_unit"))
    bleu, value = convert(float(row["BLEU"]), Finite), convert(float(row.get(latency) or 0), Finite)
    return row["system"], kind, unit, Point(value, bleu) if row.get(latency) else None
