"""Blocks of translated lines: only those of this job, at their own places, are used again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from simulmt.errors import UserError
from simulmt.programs.line_job import LineJob


@pytest.fixture
def job(tmp_path: Path) -> LineJob:
    """A job of four blocks, all of which are translated."""
    places = {
        "place": tmp_path / "out",
        "record": tmp_path / "out.json",
        "folder": tmp_path / "new",
    }
    made = LineJob(**places, job={"model": "m"}, lines=[*"abcd"], block=1)
    assert not made.begin(taken=False)
    assert translated(made) == [*"abcd"]
    return made


def translated(job: LineJob) -> list[str]:
    """The lines that were missing, and are now translated."""
    found = list[str]()

    def translate(lines: list[str]) -> list[str]:
        found.extend(lines)
        return [line.upper() for line in lines]

    job.translate(translate)
    return found


def test_what_is_translated_is_used_again(job):
    assert translated(job) == []
    assert [*job.translations()] == [*"ABCD"]


def test_a_block_at_another_place_is_translated_again(job):
    first, second, *_ = sorted(job.folder.glob("block-*"))
    text = first.read_text()
    first.write_text(second.read_text())
    second.write_text(text)
    assert translated(job) == ["a", "b"]
    assert [*job.translations()] == [*"ABCD"]


def test_a_block_of_another_job_is_translated_again(job):
    assert translated(replace(job, job={"model": "other"})) == [*"abcd"]


def test_a_block_that_is_lost_in_the_middle_ends_the_job(job):
    next(job.folder.glob("block-*2.json")).unlink()
    with pytest.raises(UserError, match=r"block-0000002\.json cannot be read any more"):
        [*job.translations()]


@pytest.mark.parametrize("spoil", ["", "{}", '{"sha256": "0", "lines": ["X"]}'])
def test_a_corrupt_block_is_translated_again(job, spoil):
    *_, last = sorted(job.folder.glob("block-*"))
    last.write_text(spoil)
    assert translated(job) == ["d"]


def test_processes_share_the_blocks(tmp_path: Path, job):
    for path in job.folder.glob("block-*"):
        path.unlink()
    shares = [[], []]
    for rank, share in enumerate(shares):
        job.translate(lambda lines, share=share: share.extend(lines) or lines, rank, 2)
    assert shares == [["a", "b"], ["c", "d"]]
