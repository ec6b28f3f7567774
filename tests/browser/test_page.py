"""The page of the server, used as people do: with a mouse, with a keyboard, on a phone, in the dark."""

import contextlib
import json
import re
from urllib.parse import parse_qs, urlencode, urlparse

import numpy as np
import pytest
from support.browser import attention_weights, check_every_layer, open_attention, said, type_text, wait_until, words
from support.server import SENTENCES

import t2t_lite as t2t
from t2t_lite.visualization.attention_map import attention_map

pytestmark = pytest.mark.heavy

LINE = SENTENCES[0]
HOSTILE = "<img src=x onerror=\"document.title='broken'\"> </textarea><script>document.title=1</script> The dog sees."


def test_it_translates_as_one_types(page, translator):
    type_text(page, SENTENCES[0], delay=15)
    beams = translator.n_best(SENTENCES[0])
    assert words(page).all_inner_texts() == beams[0].text.split()
    shown = page.locator("#hypotheses li").all_inner_texts()
    assert shown == [f"{each.text} score {each.score:.3f}, log-probability {each.log_prob:.2f}" for each in beams[:4]]
    # More text, on another line; the first line stays.
    type_text(page, f"\n{SENTENCES[1]}", lines=2)
    assert words(page, 1).all_inner_texts() == translator.translate(SENTENCES[1]).split()
    assert words(page, 0).all_inner_texts() == beams[0].text.split()
    page.get_by_label("Text").fill("")
    wait_until(page, "!document.querySelector('.word')")
    assert page.locator("#alternatives").is_hidden()


def test_each_sentence_is_translated_by_itself(page, translator, page_exports):
    text = f"{LINE}  {SENTENCES[1]}\n\n{SENTENCES[2]}"
    type_text(page, text, lines=3)
    outputs = translator.translate(SENTENCES)
    for line, output in enumerate(outputs):
        assert words(page, line).all_inner_texts() == output.split()
        assert page.locator("#output .source").nth(line).inner_text() == SENTENCES[line]
    # Alternatives and attention are those of the sentence that is chosen.
    open_attention(page)
    page.get_by_label("whole words").uncheck()
    page.locator("#output .line").nth(1).locator(".source").click()
    beams = translator.n_best(SENTENCES[1])
    assert page.locator("#hypotheses button").all_inner_texts() == [each.text for each in beams[:4]]
    tokens = len(translator.attention(SENTENCES[1], outputs[1], "cross", 0)[2])
    wait_until(page, f"document.querySelectorAll('.keys .attention-token').length === {tokens}")
    with page.expect_response("**/v1/translate") as answered:
        words(page, 1).nth(0).click()
    assert json.loads(answered.value.request.post_data)["prefixes"] == ["", outputs[1].split()[0], ""]
    page.wait_for_selector(".word.kept")
    # What is copied has the blanks and line breaks of the text.
    copied = "navigator.clipboard.writeText = async (text) => { document.body.dataset.copied = text; }"
    page.evaluate(f"navigator.clipboard ? ({copied}) : null")
    page.get_by_role("button", name="Copy the output").click()
    wait_until(page, "document.querySelector('#status').textContent === 'copied'")
    kept = translator.translate(SENTENCES[1], prefixes=outputs[1].split()[0])
    assert page.evaluate("document.body.dataset.copied") == f"{outputs[0]}  {kept}\n\n{outputs[2]}"
    page.get_by_label("Model").select_option("trees")
    wait_until(page, "document.querySelectorAll('#output img.tree').length === 3")


def test_an_output_that_is_not_complete_says_so_and_a_long_text_is_not_cut(page):
    type_text(page, LINE)
    assert page.locator(".cut").count() == 0
    page.get_by_text("Settings").click()
    page.get_by_label("min_length_ratio").fill("9")
    page.wait_for_selector(".line .cut")
    assert page.locator(".line .cut").inner_text().startswith("This output is not complete")
    box, text = page.get_by_label("Text", exact=True), f"{LINE}\n" * 900
    box.fill("")
    box.focus()
    page.keyboard.insert_text(text)  # as a paste does
    assert box.input_value() == text


def test_hovering_a_word_shows_its_alignment_and_a_click_keeps_the_translation_up_to_it(page, translator):
    type_text(page, LINE)
    output = translator.translate(LINE)
    links = dict(tuple(map(int, link.split("-")[::-1])) for link in translator.align(LINE, output).split())
    assert len(set(links.values())) > 1
    for target, source in links.items():
        words(page).nth(target).hover()
        marked = page.locator("#output .aligned").all_inner_texts()
        assert marked == [LINE.split()[source], output.split()[target]]
    page.locator("#output .source span").nth(links[0]).hover()
    others = [output.split()[target] for target, source in links.items() if source == links[0]]
    assert page.locator("#output .aligned").all_inner_texts() == [LINE.split()[links[0]], *others]
    second = page.locator("#hypotheses button").nth(1)
    kept = " ".join(second.inner_text().split()[:2])
    second.click()
    assert words(page).all_inner_texts()[:2] == kept.split()
    with page.expect_response("**/v1/translate") as answered:
        words(page).nth(1).click()
    assert json.loads(answered.value.request.post_data)["prefixes"] == [kept]
    page.wait_for_selector(".word.kept")
    assert page.locator(".word.kept").all_inner_texts() == kept.split()
    assert " ".join(words(page).all_inner_texts()) == translator.translate(LINE, prefixes=kept)
    page.get_by_role("button", name="Discard the kept beginning").click()
    wait_until(page, "!document.querySelector('.word.kept')")
    assert " ".join(words(page).all_inner_texts()) == translator.translate(LINE)


def test_attention_is_that_of_the_model(page, translator):
    type_text(page, LINE)
    open_attention(page)
    # It opens with the last layer of cross-attention, by words.
    output = translator.translate(LINE)
    last = translator.attention_layers["cross"] - 1
    assert page.locator(".attention-caption").inner_text().startswith(f"cross-attention, layer {last}, heads 0, ")
    each = attention_map(translator, LINE, output, "cross", last).in_words()
    assert page.locator(".queries .attention-label").all_inner_texts() == each.queries.labels
    np.testing.assert_allclose(attention_weights(page, each.weights.shape), each.weights, atol=6e-5)
    check_every_layer(page, translator, LINE, output)
    # Hovering a token shows its lines only; a click keeps them.
    token = page.locator(".queries .attention-token").nth(1)
    token.hover()
    visible = "[...document.querySelectorAll('.attention-lines line:not(.off)')].map(line => line.dataset.query)"
    assert set(page.evaluate(visible)) == {"1"}
    token.click()
    page.mouse.move(0, 0)
    assert set(page.evaluate(visible)) == {"1"}
    label = token.locator(".attention-label").inner_text()
    assert said(page).startswith(f"{label} attends to ")


def test_with_the_keyboard_only(page, translator):
    for _ in range(3):  # the link to the API and the model are before it
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "text"
    page.keyboard.type(LINE)
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".word")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.classList[0]") == "word"
    page.wait_for_selector(".aligned")  # focus shows the alignment, too
    assert page.evaluate("document.activeElement.getAttribute('aria-description')").startswith("from ")
    first = page.evaluate("document.activeElement.textContent")
    page.keyboard.press("Enter")
    page.wait_for_selector(".word.kept")
    assert page.locator(".word.kept").all_inner_texts() == [first]
    assert page.evaluate("document.activeElement.dataset.place") == "0:0"  # the focus stays

    def tab_until(condition):
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate(condition):
                break

    tab_until("document.activeElement.parentElement.id === 'attention'")
    page.keyboard.press("Enter")
    page.wait_for_selector(".attention-lines line", state="attached")
    tab_until("document.activeElement.className.includes('attention-token')")
    labels = page.locator(".queries .attention-label").all_inner_texts()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.textContent") == labels[2]
    assert said(page).startswith(f"{labels[2]} attends to ")
    page.keyboard.press("ArrowRight")
    assert " is attended to by " in said(page)
    page.keyboard.press("Tab")
    assert not page.evaluate("document.activeElement.className.includes('attention-token')")  # each column is one stop


def test_another_model_parses(page, page_exports):
    type_text(page, "The dog runs.")
    open_attention(page)
    page.get_by_label("Model").select_option("trees")
    page.wait_for_selector("img.tree")
    (tree,) = [t2t.Parser.from_export(page_exports / "trees").translate("The dog runs .")]
    assert page.locator("#output .brackets").inner_text() == tree
    assert page.evaluate("document.querySelector('img.tree').naturalWidth") > 50  # it is a picture that can be shown
    page.wait_for_selector(".attention-lines line", state="attached")
    labels = page.locator(".keys .attention-label").all_inner_texts()
    assert labels[-1] == "<end>" and "dog" in labels
    # The engine of the next one returns alignments, but no weights of single heads.
    page.get_by_label("Model").select_option("new")
    page.wait_for_selector(".word")
    page.get_by_text("returns no attention weights of single heads").wait_for()
    assert page.locator("#output .source").count() == 1


def test_late_answers_change_nothing(page, translator):
    """Maps that arrive after another layer, or another text, was chosen."""
    type_text(page, LINE)
    open_attention(page)
    held = []
    page.route("**/v1/attention", lambda route: held.append(route))
    layer = page.locator("[data-key=Layer]")
    last = str(translator.attention_layers["encoder"] - 1)
    page.get_by_label("whole words").uncheck()
    page.locator("[data-key=Attention]").select_option("encoder")
    page.locator("[data-key=Attention]").select_option("decoder")
    layer.select_option(last)
    while len(held) < 2:
        page.wait_for_timeout(20)
    for route in held[::-1]:
        route.continue_()
    page.wait_for_timeout(500)
    caption = f"decoder self-attention, layer {last},"
    wait_until(page, "text => document.querySelector('.attention-caption').innerText.startsWith(text)", caption)
    page.locator(".queries .attention-token").nth(1).hover()
    assert page.locator(".keys .attention-label").first.inner_text() == "<start>"
    weights, _, _ = translator.attention(LINE, translator.translate(LINE), "decoder", int(last))
    labels = page.locator(".keys .attention-label").all_inner_texts()
    best = labels[weights.mean(0)[1].argmax()]
    assert f"attends to {best} {weights.mean(0)[1].max():.2f}" in said(page)
    # All heads of one text, while the answers for the text before it are on their way.
    page.unroute("**/v1/attention")
    page.get_by_role("button", name="All heads").click()
    page.wait_for_selector(".attention-thumbnail")
    held.clear()
    page.route("**/v1/attention", lambda route: held.append(route))
    type_text(page, "", clear=SENTENCES[1])
    while not held:
        page.wait_for_timeout(20)
    old = list(held)
    page.unroute("**/v1/attention")
    text = f"{SENTENCES[2][:-1]} and the man and the man."
    type_text(page, "", clear=text)
    for route in old:
        with contextlib.suppress(Exception):  # the page may have given it up
            route.continue_()
    output = translator.translate(text)
    tokens = len(translator.attention("a", output, "decoder", 0)[1]) - 1
    wait_until(page, f"document.querySelector('.attention-figure').innerText.includes('Measured on {tokens} tokens')")


def test_a_link_has_it_all(page, open_page, server):
    type_text(page, LINE)
    words(page).nth(0).click()
    page.wait_for_selector(".word.kept")
    page.get_by_role("button", name="Copy a link").click()
    wait_until(page, "location.hash.includes('prefixes')")
    values = parse_qs(urlparse(page.url).fragment)
    assert values["text"] == [LINE] and values["model"] == ["tied"]
    other = open_page(page.url)
    other.wait_for_selector(".word.kept")
    assert words(other).all_inner_texts() == words(page).all_inner_texts()
    # Settings that no request may have, among them names that every object of JavaScript has, are left out.
    odd = urlencode({"text": LINE, "settings": '{"constructor": 1, "batch_tokens": 9, "alpha": 0.5}'})
    other = open_page(f"{server.url}/#{odd}")
    with other.expect_response("**/v1/translate") as answered:
        other.get_by_label("Text").fill(SENTENCES[1])
    assert json.loads(answered.value.request.post_data)["settings"] == {"alpha": 0.5}
    assert not [entry for entry in server.access_log if "#" in entry["path"] or "text" in entry["path"]]


def test_an_error_of_the_server_is_said_and_passes(page, open_page):
    type_text(page, LINE)
    before = words(page).all_inner_texts()
    page.get_by_label("Text").fill("dog " * 400)
    error = page.locator("#error")
    error.wait_for()
    wait_until(page, "document.querySelector('#error').textContent")
    assert re.search(r"sentence 1 has \d+ tokens; at most 200 are allowed", error.inner_text())
    open_page.failures.clear()  # the browser itself notes the status
    assert words(page).all_inner_texts() == before
    type_text(page, "", clear=LINE)
    wait_until(page, "!document.querySelector('#error').textContent")
    # A server that does not answer.
    page.context.set_offline(True)
    page.get_by_label("Text").fill(SENTENCES[1])
    wait_until(page, "document.querySelector('#error').textContent === 'the server does not answer'")
    open_page.failures.clear()
    page.context.set_offline(False)
    page.get_by_label("Text").fill(SENTENCES[2])
    wait_until(page, "!document.querySelector('#error').textContent")


def test_what_is_typed_while_the_models_are_loaded_stays(server, open_page, translator):
    html = server.get("/").content
    loading = re.sub(r'(id="page-data">).*(</script>)', r'\1{"models":[],"measures":[],"ready":false}\2', html)
    loading = re.sub("<option.*</option>", "", loading).replace("<main>", '<main><p id="loading">loading</p>')
    asked = []

    def answer(route):
        asked.append(route)
        if len(asked) == 3:
            route.abort()  # a server that does not answer
        elif len(asked) < 5:
            route.fulfill(body=loading, content_type="text/html")
        else:
            route.continue_()

    page = open_page("about:blank")
    page.route(f"{server.url}/", answer)
    link = urlencode({"text": "Of the link.", "prefixes": '["Das"]'})
    page.goto(f"{server.url}/#{link}")
    page.get_by_label("Text", exact=True).press_sequentially(LINE, delay=20)
    page.evaluate("document.body.dataset.kept = 'yes'")
    page.wait_for_selector(".word")
    assert len(asked) == 5 and page.evaluate("document.body.dataset.kept") == "yes"  # nothing was loaded anew
    assert page.get_by_label("Text", exact=True).input_value() == LINE
    assert page.evaluate("document.activeElement.id") == "text"
    assert words(page).all_inner_texts() == translator.translate(LINE).split()
    assert page.locator("#loading").count() == 0 and page.get_by_label("Model").input_value() == "tied"
    models = page.get_by_label("Model").locator("option").all_inner_texts()
    assert models == ["English to German (tied)", "English to German (new)", "English, parsing"]
    open_page.failures.clear()  # the browser itself notes that the server did not answer


def test_a_long_search_is_shown(page):
    held = []
    page.route("**/v1/*", lambda route: held.append(route))
    page.get_by_label("Text", exact=True).fill(LINE)
    for model, what in (("tied", "translating…"), ("trees", "parsing…")):
        page.get_by_label("Model").select_option(model)
        wait_until(page, "what => document.querySelector('#working').innerText.trim() === what", what)
        assert page.locator("#working progress").is_visible()
    for route in held:
        with contextlib.suppress(Exception):  # the page has given up the first one
            route.continue_()
    page.wait_for_selector("img.tree")
    assert page.locator("#working").inner_text() == "" and page.locator("progress").count() == 0
    # Short ones do not flicker.
    page.unroute("**/v1/*")
    page.evaluate("""document.body.dataset.shown = 0; new MutationObserver(() => document.body.dataset.shown++)
        .observe(document.querySelector('#working'), {childList: true})""")
    page.get_by_label("Model").select_option("new")
    page.wait_for_selector(".word")
    assert page.evaluate("document.body.dataset.shown") == "0"


def test_hostile_text_is_text(page, open_page, server):
    type_text(page, HOSTILE)
    open_attention(page)
    linked = open_page(f"{server.url}/#{urlencode(dict.fromkeys(('text', 'model', 'settings'), HOSTILE))}")
    linked.wait_for_selector(".word")
    page.get_by_label("Model").select_option("trees")
    page.wait_for_selector("#output .brackets")
    for each in (page, linked):
        assert each.title() == "t2t-lite"
        assert each.locator("img:not(.tree)").count() == 0
    assert page.evaluate("document.querySelectorAll('main script').length") == 0
    # Even a script that got into the document would not run.
    page.evaluate("document.body.append(Object.assign(document.createElement('script'), {text: 'document.title = 1'}))")
    assert page.title() == "t2t-lite"
    assert any("Content Security Policy" in failure for failure in open_page.failures)
    open_page.failures.clear()


@pytest.mark.parametrize("width", [375, 1100])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_is_accessible_and_fits(server, open_page, check_accessible, width, scheme):
    page = open_page(server.url, width, color_scheme=scheme)
    light = sum(page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")[:3])
    assert (light > 600) == (scheme == "light")

    def check():
        check_accessible(page)
        # Nothing makes the page wider than the screen; wide things scroll by themselves.
        assert page.evaluate("document.documentElement.scrollWidth") <= width

    check()
    type_text(page, f"{SENTENCES[0]}\n{SENTENCES[1]}", lines=2)
    page.get_by_text("Settings").click()
    words(page).nth(0).click()
    page.wait_for_selector(".word.kept")
    open_attention(page)
    page.locator(".queries .attention-token").nth(1).click()
    check()
    page.get_by_role("button", name="Matrix").click()
    page.wait_for_selector(".attention-matrix")
    check()
    page.get_by_role("button", name="All heads").click()
    page.wait_for_selector(".attention-thumbnail")
    check()
    page.get_by_label("Model").select_option("trees")
    page.wait_for_selector("img.tree")
    check()
    page.get_by_label("Text").fill("dog " * 400)
    wait_until(page, "document.querySelector('#error').textContent")
    open_page.failures.clear()
    check()
