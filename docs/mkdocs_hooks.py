"""The site has the tree of the repository: the links of a page hold in both."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PAGES = ("*.md", "docs/*.md", "experiments/**/*.md", "benchmarks/*.md", "examples/**/*.md")
LINK = re.compile(r"(?<=\]\()([\w./-]+)(?=[#)])")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """All pages under their own paths, the files that they link to, and those of the theme."""
    pages = [page for part in PAGES for page in ROOT.glob(part)]
    links = [page.parent / link for page in pages for link in LINK.findall(page.read_text("utf-8"))]
    paths = {path.resolve() for path in (*pages, *links, ROOT / "docs/site.css") if path.is_file()}
    names = sorted(path.relative_to(ROOT).as_posix() for path in paths)
    site = (config.site_dir, config.use_directory_urls)
    theme = [file for file in files if file.src_dir != config.docs_dir]
    return Files([*(File(name, str(ROOT), *site) for name in names), *theme])


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """A link to a folder leads to its README."""
    folder = (ROOT / page.file.src_uri).parent

    def to_page(link: re.Match[str]) -> str:
        readme = folder / link[1] / "README.md"
        return f"{link[1].rstrip('/')}/README.md" if readme.is_file() else link[1]

    return LINK.sub(to_page, markdown)
