"""A headless Chromium; without one, the tests of this folder are skipped."""

import shutil

import pytest
from support.server import Server

import t2t_lite as t2t

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


# Not for the whole session: as long as Playwright runs, tests of other folders can't use asyncio.run.
@pytest.fixture(scope="module")
def browser():
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        pytest.skip("needs a browser: apt-get install chromium")
    for package in ("playwright", "axe_playwright_python"):
        pytest.importorskip(package, reason="needs Playwright: pip install -e '.[dev]'")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # As root, as in most containers, Chromium starts without its sandbox only.
        running = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def open_page(browser):
    """A function that opens an address in a window of its own; scripts that fail make the test fail."""
    failures, contexts = [], []

    def open_(url, width=1100, height=800, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: failures.append(str(error)))
        # What the Content-Security-Policy forbids, and files that are missing, are errors of the console.
        page.on("console", lambda message: failures.append(message.text) if message.type == "error" else None)
        page.set_default_timeout(60_000)
        page.goto(url)
        return page

    open_.failures = failures
    yield open_
    for context in contexts:
        context.close()
    assert failures == []


@pytest.fixture
def check_accessible():
    """A function that checks a page with the rules of axe-core."""
    from axe_playwright_python.sync_playwright import Axe

    def check(page):
        found = Axe().run(page).response["violations"]
        assert [(each["id"], [node["html"] for node in each["nodes"]][:3]) for each in found] == []

    return check


@pytest.fixture(scope="module")
def server(page_exports, served_exports):
    exports = f"--export_dir={page_exports / 'tied'},{served_exports / 'new'},{page_exports / 'trees'}"
    with Server(exports, "--languages=en-de,en-de,en-en", "--max_tokens=200") as running:
        yield running


@pytest.fixture(scope="module")
def translator(page_exports):
    return t2t.Translator.from_export(page_exports / "tied")


@pytest.fixture
def page(server, open_page):
    return open_page(server.url)
