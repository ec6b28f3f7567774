"""The HTML files of attention and of reports, in a browser without network."""

import shutil
from pathlib import Path

import pytest
from support.browser import check_every_layer, said

import t2t_lite as t2t
from t2t_lite.visualization.attention_map import paper_layer

pytestmark = pytest.mark.slow

TIED = Path(__file__).resolve().parents[1] / "frozen/0.2/tied"
LINE = "The old man gave a red apple to his clever daughter."
HOSTILE = "</script><img src=x onerror=\"document.title='broken'\"> The dog sees <b>it</b>."


@pytest.fixture(scope="module")
def translator():
    return t2t.Translator.from_run_dir(TIED / "run")


@pytest.fixture(scope="module")
def attention_file(translator, tmp_path_factory):
    file = tmp_path_factory.mktemp("attention") / "attention.html"
    t2t.draw_attention(translator, [LINE, HOSTILE], file=file, words=True, heads=[1])
    return file


@pytest.fixture(scope="module")
def report_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    run = shutil.copytree(TIED / "run", folder / "run")
    t2t.score_split(run, "dev", data_dir=TIED / "data", decode_hparams="beam_size=1", xla_compile=False)
    t2t.measure_heads(run, data_dir=TIED / "data", lines=5)
    return t2t.write_report(run, folder / "report.html")


def test_the_file_draws_the_weights_and_begins_as_asked(attention_file, open_page, translator):
    page = open_page(attention_file.as_uri())
    assert page.get_by_label("whole words").is_checked()
    shown = page.locator(".attention-head input")
    assert [each.is_checked() for each in shown.all()] == [head == 1 for head in range(shown.count())]
    page.get_by_role("button", name="all / none").click()
    weights = check_every_layer(page, translator, LINE, translator.translate(LINE))
    # The matrix has the same numbers, and says them to the keyboard.
    page.get_by_role("button", name="Matrix").click()
    matrix = page.locator(".attention-matrix").first
    matrix.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert said(page).endswith(f" {weights[0, 2, 1]:.4f}")
    # A thumbnail of the overview opens its head.
    page.get_by_role("button", name="All heads").click()
    page.locator(".attention-thumbnail").last.click()
    page.wait_for_selector(".attention-lines line", state="attached")
    drawn = page.evaluate("[...document.querySelectorAll('.attention-lines line')].map(line => line.dataset.head)")
    assert set(drawn) == {str(len(weights) - 1)}


@pytest.mark.parametrize(
    ("choices", "caption", "by_words"),
    [
        ({}, "cross-attention, layer {last}, heads 0, ", True),
        ({"words": False}, "cross-attention, layer {last}, heads 0, ", False),
        ({"kinds": ["decoder", "cross"], "heads": [1]}, "decoder self-attention, layer {paper}, heads 1\n", True),
        ({"query": "man"}, "encoder self-attention, layer {paper}, heads 0, ", False),
        ({"form": "overview"}, "cross-attention, all heads\n", True),
    ],
)
def test_a_file_opens_with_cross_attention_by_words(translator, open_page, tmp_path, choices, caption, by_words):
    file = tmp_path / "a.html"
    t2t.draw_attention(translator, "The old man sees a dog.", file=file, **choices)
    page = open_page(file.as_uri())
    page.wait_for_selector(".attention-lines line, canvas", state="attached")
    layers = translator.attention_layers["cross"]
    wanted = caption.format(last=layers - 1, paper=paper_layer(layers))
    assert page.locator(".attention-caption").inner_text().startswith(wanted)
    assert page.get_by_label("whole words").is_checked() == by_words


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [375, 1100])
def test_files_are_accessible_fit_and_run_no_text(
    attention_file, report_file, open_page, check_accessible, scheme, width
):
    page = open_page(attention_file.as_uri(), width, color_scheme=scheme)
    page.locator("[data-key=Sentence]").select_option("1")
    for form in ("Lines", "Matrix", "All heads"):
        page.get_by_role("button", name=form).click()
        page.wait_for_selector({"Lines": ".attention-drawing", "Matrix": ".attention-matrix"}.get(form, "canvas"))
        check_accessible(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.title().startswith("Attention: ") and page.locator("img").count() == 0
    report = open_page(report_file.as_uri(), width, color_scheme=scheme)
    report.wait_for_selector(".attention-drawing")
    check_accessible(report)
    assert report.evaluate("document.documentElement.scrollWidth") <= width
    assert report.locator("svg").count() > 4


def test_on_a_phone_two_runs_are_seen_side_by_side_and_wider_tables_scroll(report_file, open_page, check_accessible):
    folder = report_file.parent
    other = shutil.copytree(folder / "run", folder / "other_run_with_a_longer_name")
    page = open_page(t2t.write_report([folder / "run", other], folder / "compared.html").as_uri(), 375)
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    tables = page.evaluate(
        """[...document.querySelectorAll('.facts, .settings, .scores')].map(
            each => [each.className, each.parentElement.scrollWidth - each.parentElement.clientWidth])"""
    )
    assert {name for name, _ in tables} == {"facts", "settings", "scores"}
    assert [name for name, hidden in tables if hidden > 0] == []
    # Whatever else is wider than the window is in a part that scrolls, also with the keyboard.
    beyond = page.evaluate(
        """[...document.querySelectorAll('main *')].filter(each => each.getBoundingClientRect().right > innerWidth)
            .map(each => [each.outerHTML.slice(0, 60), Boolean(each.closest('.scroll[tabindex="0"]'))])"""
    )
    assert [html for html, scrolls in beyond if not scrolls] == []
    wide = page.locator(".scroll:has(> .checkpoints)").first
    wide.evaluate("each => each.scrollLeft = each.scrollWidth")
    last = wide.locator("th").filter(has_text="remarks")
    assert last.evaluate("each => each.getBoundingClientRect().right <= innerWidth")
    check_accessible(page)


def test_on_paper_there_are_no_controls_and_a_damaged_picture_does_not_hide_the_others(
    attention_file, open_page, tmp_path
):
    html = attention_file.read_text(encoding="utf-8")
    damaged = '<div data-attention="x"></div><script type="application/json" id="x">{"sentences": [1]}</script>'
    (tmp_path / "a.html").write_text(html.replace("<h1>", f"{damaged}<h1>"), encoding="utf-8")
    page = open_page((tmp_path / "a.html").as_uri())
    page.wait_for_selector(".attention-drawing")
    assert page.get_by_text("This picture cannot be shown").count() == 1
    assert page.locator(".attention-controls").first.is_visible()
    page.emulate_media(media="print")
    assert not page.locator(".attention-controls").first.is_visible()
    assert page.locator(".attention-drawing").is_visible()
    assert page.pdf().startswith(b"%PDF")
