"""The table of translated documents: a row for each evaluation with `sentences=`."""

from pathlib import Path

from simulmt.analysis.runs.run import Row
from simulmt.files.run_directory import DOCUMENT_SCORES, EVALUATION, folders_in
from simulmt.scoring.scores import Figures
from simulmt.system.disk import read_record


def document_rows(folder: Path) -> list[Row]:
    """The scores of all evaluations of documents below a folder, such as `streaming_DAL`.

    Raises:
        UserError: a file of scores cannot be read.
    """
    rows = list[Row]()
    for place in folders_in(folder):
        if not (file := place / DOCUMENT_SCORES).is_file() or place.parent.name != EVALUATION:
            continue
        scores = read_record(file, dict[str, Figures])
        row: Row = {"folder": place.relative_to(folder).as_posix()}
        for name, figures in scores.items():
            row |= {f"{name}_{figure}": score.value for figure, score in figures.items()}
        rows.append(row)
    return rows
