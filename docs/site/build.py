"""Builds the site: python docs/site/build.py [FOLDER], by default site/ in the checkout."""

import re
import shutil
import sys
import tempfile
from pathlib import Path

from pages import PAGES
from sphinx.cmd.build import main as build

from t2t_lite.system.tensorflow import import_tensorflow

DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent
# Pages outside docs/: the name in the site of each.
_OUTSIDE = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "README.md": "index.md"}


def main() -> int:
    """Builds the site from docs/, from the generated pages, and from some files of the checkout."""
    import_tensorflow()  # without its log
    target = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "site").resolve()
    if target.exists() and any(target.iterdir()) and not (target / "objects.inv").exists():
        sys.exit(f"bin/docs: {target} has files and is not a site of an earlier build; pass another folder")
    with tempfile.TemporaryDirectory() as name:
        source, built = Path(name) / "source", Path(name) / "site"
        source.mkdir()
        for file in [*DOCS.glob("*.md"), *DOCS.glob("*.png"), *DOCS.glob("*.ipynb"), *(DOCS / "site").glob("[!_]*.*")]:
            shutil.copy(file, source)
        for path, page in _OUTSIDE.items():
            if page != "index.md":
                (source / page).write_text((ROOT / path).read_text(encoding="utf-8"), encoding="utf-8")
        for page, make in PAGES.items():
            (source / page).write_text(make(), encoding="utf-8")
        for page in source.glob("*.md"):
            page.write_text(_with_links_of_the_site(page.read_text(encoding="utf-8")), encoding="utf-8")
        if status := build(["-W", "--keep-going", "-q", "-b", "html", str(source), str(built)]):
            return status
        shutil.rmtree(built / ".doctrees", ignore_errors=True)
        for page in built.glob("*.html"):
            page.write_text(_accessible(page.read_text(encoding="utf-8")), encoding="utf-8")
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(built, target)
    print(f"{target / 'index.html'}")
    return 0


def _with_links_of_the_site(text: str) -> str:
    """Returns a page whose links lead to pages of the site; other files of the checkout become their paths."""
    text = re.sub(r"\]\((?:\.\./)?docs/", "](", text)
    for path, page in _OUTSIDE.items():
        end = r"(?=\))" if page == "index.md" else "(?=[)#])"  # the start page lacks the sections of README.md
        text = re.sub(rf"\]\((?:\.\./)?{path}{end}", f"]({page}", text)
    return re.sub(r"\[([^\]]+)\]\((?:\.\./|(?=tests/))([^)#]+)(?:#[^)]*)?\)", _as_path, text)


def _as_path(link: re.Match[str]) -> str:
    text, path = link.groups()
    return f"`{path}`" if path.startswith(text) else f"{text} (`{path}`)"


def _accessible(html: str) -> str:
    """Returns a page that can be used with a keyboard and a screen reader, which the theme's pages lack."""
    for before, after in (
        ('role="heading"', 'role="heading" aria-level="2"'),
        ('<div class="table-wrapper', '<div tabindex="0" class="table-wrapper'),
        ("<pre>", '<pre tabindex="0">'),
        ('<aside class="sidebar-drawer"', '<aside aria-label="All pages" class="sidebar-drawer"'),
        ('<aside class="toc-drawer', '<aside aria-label="This page" class="toc-drawer'),
        ('<div id="search-results">', '<h1>Search</h1><div id="search-results">'),
    ):
        html = html.replace(before, after)
    return re.sub(r'<th class="head"><p></p></th>', '<td class="head"></td>', html)


if __name__ == "__main__":
    sys.exit(main())
