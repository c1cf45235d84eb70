"""What surrounds the package: the citation, the image and the site belong to this version of it."""

from __future__ import annotations

import re
from importlib import metadata

import yaml
from packaging.requirements import Requirement

import simulmt
from small_runs import ROOT

MAKE = (ROOT / "Makefile").read_text("utf-8")
PINS = [
    Requirement(line)
    for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
]


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == simulmt.__version__ == metadata.version("simulmt")
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()


def test_the_image_makes_targets_that_there_are():
    image = (ROOT / "Dockerfile").read_text("utf-8")
    named = re.findall(r"make (\w+)$", image, re.MULTILINE) + re.findall(r'"make", "(\w+)"', image)
    assert named == ["setup", "run"]
    assert all(re.search(rf"^{target}: .*##", MAKE, re.MULTILINE) for target in named)


def test_every_page_is_in_the_navigation_of_the_site():
    """As in its strict build, which needs packages that the tests lack."""
    listed = re.findall(r"- (\S+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    pages = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/*.md")}
    assert len(listed) == len({*listed})
    assert all((ROOT / page).is_file() for page in listed)
    assert pages <= {*listed}


def test_the_packages_of_the_site_are_pinned():
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    (group,) = re.findall(r"^docs = \[(.*)\]$", project, re.MULTILINE)
    for wanted in map(Requirement, re.findall(r'"([^"]+)"', group)):
        pins = [pin for pin in PINS if pin.name == wanted.name]
        assert pins
        assert all(wanted.specifier.contains(next(iter(p.specifier)).version) for p in pins)


def test_every_extra_that_a_page_names_is_there():
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    extras = project.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    there = {*re.findall(r"^(\w+) = \[", extras, re.MULTILINE)}
    pages = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("experiments/**/*.md")]
    named = re.compile(r"""["'](?:simulmt|\.)\[([\w,]+)\]["']""")
    lists = [found for page in pages for found in named.findall(page.read_text("utf-8"))]
    wanted = {extra for found in lists for extra in found.split(",")}
    assert {"simuleval", "sweep", "test"} <= wanted <= there
