"""Keeps finished runs in one small file: all of their figures and translations, but no model.

python experiments/comparison/archive.py pack RUNS FILE.tar.xz
python experiments/comparison/archive.py unpack FILE.tar.xz RUNS

RUNS is a folder of runs, as for `report.py`. The file does not hold the text of the test set:
`unpack` takes sources and references from the data that the runs name. `report.py` reads the
unpacked runs as it reads those that were just trained.
"""

from __future__ import annotations

import argparse
import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path

from simulmt.decoding.writing import unspaced
from simulmt.errors import UserError
from simulmt.files import run_directory as files
from simulmt.parts.builders import Data
from simulmt.system.disk import read_json, replacing

KEPT = (*files.FILES, files.SCORES, files.INSTANCES, files.EVALUATED)


def finished(folder: Path) -> list[Path]:
    """Return the finished runs below a folder, sorted."""
    return sorted(place.parent for place in folder.rglob(files.SCORES))


def read_test(run: Path) -> list[tuple[str, str]]:
    """Return the test set of a run, after a check that the data still has the same text."""
    told, data = read_json(run / files.MANIFEST), Data.of(read_json(run / files.CONFIG)["data"])
    split, known = data.read().splits["test"], told["splits"]["test"]
    if split.sha256 != (known["source_sha256"], known["target_sha256"]):
        raise SystemExit(f"{run}: its test set is not the one in the data; fetch that again")
    sides = (split.sources, data.writing.source), (split.targets, data.writing.target)
    texts = ([unspaced(line, characters) for line in lines] for lines, characters in sides)
    return [*zip(*texts, strict=True)]


def with_texts(log: bytes, test: Sequence[tuple[str, str]]) -> bytes:
    """Return a log with the sources and references of a test set; without one, with none."""
    lines, texts = [json.loads(line) for line in log.splitlines()], dict(enumerate(test))
    for line in lines:
        line["source"], line["reference"] = texts.get(line.get("index"), ("", ""))
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()


def pack(runs: Path, file: Path) -> None:
    """Write the finished runs of a folder into a file; the same runs give the same bytes."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as unfinished, tarfile.open(unfinished, "w:xz", preset=9) as archive:
        for run in finished(runs):
            test = read_test(run)
            for path in sorted(path for path in run.rglob("*") if path.name in KEPT):
                content = path.read_bytes()
                if path.name == files.INSTANCES:
                    log, content = content, with_texts(content, [])
                    if with_texts(content, test) != log:
                        raise SystemExit(f"{path}: this is not a log of the run's test set")
                member = tarfile.TarInfo(path.relative_to(runs).as_posix())
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))


def unpack(file: Path, runs: Path) -> None:
    """Write the runs of a file into a folder, with the text of their test set."""
    places = list[Path]()
    with tarfile.open(file) as archive:
        if there := [name for name in archive.getnames() if (runs / name).exists()]:
            raise SystemExit(f"{runs / there[0]} exists: unpack into a new folder")
        for member in archive:
            place = runs / member.name
            content = archive.extractfile(member)
            if content is None or not place.resolve().is_relative_to(runs.resolve()):
                raise SystemExit(f"{file}: {member.name} is not a file of a run")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content.read())
            places.append(place)
    for run in (place.parent for place in places if place.name == files.SCORES):
        test = read_test(run)
        for path in (place for place in places if run in place.parents):
            if path.name == files.INSTANCES:
                path.write_bytes(with_texts(path.read_bytes(), test))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    for act, places in ((pack, ("runs", "file")), (unpack, ("file", "runs"))):
        command = commands.add_parser(act.__name__, help=act.__doc__)
        command.set_defaults(act=act)
        for place in places:
            command.add_argument(place, type=Path)
    chosen = vars(parser.parse_args())
    try:
        chosen.pop("act")(**chosen)
    except UserError as error:
        raise SystemExit(f"error: {error}") from None
