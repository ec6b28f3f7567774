"""The site that bin/docs builds: no warnings, everything once in the reference, and usable by everybody."""

import importlib
import re
import subprocess
import sys
from html import unescape
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from support.commands import user_environment

import t2t_lite as t2t
from t2t_lite.registry import REGISTRIES

ROOT = Path(__file__).resolve().parents[2]
# The module of each command.
COMMANDS = [each.module for each in entry_points(group="console_scripts") if each.name.startswith("t2t-lite-")]

pytestmark = pytest.mark.heavy


def build(folder):
    line = [sys.executable, ROOT / "docs" / "site" / "build.py", folder]
    return subprocess.run(line, env=user_environment(), capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder with the site. The build ends with an error if Sphinx warns, as of a link that leads nowhere."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "mine.txt").touch()
    refused = build(folder)  # a folder with other files is not replaced
    assert refused.returncode == 1 and f"{folder} has files and is not a site" in refused.stderr
    assert (folder / "mine.txt").exists()
    done = build(folder / "site")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


def sections(page):
    """The first cells of the tables of a page, by the heading of second level above them."""
    parts = re.split(r"<h2>(.*?)<a", page.read_text(encoding="utf-8"))[1:]
    text = [unescape(re.sub("<.*?>", "", part)) for part in parts[::2]]
    rows = [re.findall(r"<tr[^>]*><td>(.*?)</td>", part, re.DOTALL) for part in parts[1::2]]
    return {title: [unescape(re.sub("<.*?>", "", row)) for row in of_title] for title, of_title in zip(text, rows)}


def test_every_flag_of_every_command_is_in_the_reference_once(site):
    commands, options = sections(site / "commands.html"), sections(site / "options.html")
    common = [cell.partition("=")[0] for cell in commands["Flags of all commands"]]
    documented = {f"--{name}" for cells in options.values() for cell in cells for name in cell.split(", ")}
    text = (site / "commands.html").read_text(encoding="utf-8")
    assert len(COMMANDS) == 14
    for module in COMMANDS:
        parser = importlib.import_module(module).make_parser()
        cells = [cell.partition("=")[0] for cell in commands[parser.prog]] + common
        (also,) = re.findall(
            rf"<h2><code[^>]*><span class=\"pre\">{parser.prog}</span>.*?(?=<h2>|</article>)", text, re.S
        )
        also = re.findall(r"--\w+", (re.findall(r"<p>Options: (.*?)</p>", also, re.DOTALL) or [""])[0])
        assert documented >= set(also), parser.prog
        flags = [action.option_strings[-1] if action.option_strings else action.dest for action in parser._actions]
        assert sorted(flags) == sorted(cells + also), parser.prog


def test_every_setting_and_registered_name_is_in_the_reference_once(site):
    options = sections(site / "options.html")
    for title, kind in (("Settings of models", t2t.HParams), ("Settings of the search", t2t.DecodeHParams)):
        (cells,) = [cells for name, cells in options.items() if name.startswith(title)]
        assert sorted(cells) == sorted(kind.names())
    registered = sections(site / "registered.html")
    for registry, cells in zip(REGISTRIES, registered.values(), strict=True):
        assert cells == [name for name in registry.names() if registry.source(name) is None]


def test_every_public_function_and_class_is_in_the_reference_once(site):
    text = (site / "api.html").read_text(encoding="utf-8")
    found = re.findall(r'<dt class="sig[^>]* id="([\w.]+)"', text)
    assert len(found) == len(set(found))
    names = [f"t2t_lite.{name}" for name in t2t.__all__ if name not in ("layers", "losses", "models", "schedules")]
    for module in (t2t.layers, t2t.models):
        names += [f"{module.__name__}.{name}" for name in module.__all__]
    assert set(names) <= set(found)


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (375, "dark")])
def test_pages_fit_the_screen_and_break_no_rule_of_accessibility(site, width, scheme, browser, check_accessible):
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    for file in sorted(site.glob("*.html")):
        page.goto(file.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), file.name
        check_accessible(page)
    context.close()
