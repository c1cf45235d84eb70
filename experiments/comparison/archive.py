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
from pathlib import Path

from simulmt.data.corpus import Split
from simulmt.files import run_directory as files
from simulmt.parts.builders import build_corpus
from simulmt.system.disk import read_json, replacing

KEPT = (*files.FILES, files.SCORES, files.INSTANCES, files.EVALUATED)


def finished(folder: Path) -> list[Path]:
    """Return the finished runs below a folder, sorted."""
    return sorted(place.parent for place in folder.rglob(files.SCORES))


def read_test(run: Path) -> Split:
    """Return the test set of a run, after a check that the data still has the same text."""
    told = read_json(run / files.MANIFEST)["splits"]["test"]
    split = build_corpus(read_json(run / files.CONFIG)["data"]).splits["test"]
    if split.sha256 != (told["source_sha256"], told["target_sha256"]):
        raise SystemExit(f"{run}: its test set is not the one in the data; fetch that again")
    return split


def with_texts(log: bytes, test: Split | None) -> bytes:
    """Return a log with the sources and references of a test set; None takes them out."""
    lines = [json.loads(line) for line in log.splitlines()]
    for line in lines:
        place = line["index"]
        line["source"] = test.sources[place] if test else ""
        line["reference"] = test.targets[place] if test else ""
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
                    log, content = content, with_texts(content, None)
                    if with_texts(content, test) != log:
                        raise SystemExit(f"{path}: this is not a log of the run's test set")
                member = tarfile.TarInfo(path.relative_to(runs).as_posix())
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))


def unpack(file: Path, runs: Path) -> None:
    """Write the runs of a file into a folder, with the text of their test set."""
    with tarfile.open(file) as archive:
        archive.extractall(runs, filter="data")
    for run in finished(runs):
        test = read_test(run)
        for path in run.rglob(files.INSTANCES):
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
    chosen.pop("act")(**chosen)
