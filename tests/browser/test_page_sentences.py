"""The page of the server with a text of several sentences: nothing of it vanishes."""

import json

import pytest
from support.browser import type_text, wait_until, words
from support.server import SENTENCES

pytestmark = pytest.mark.heavy

LINE = SENTENCES[0]


def test_each_sentence_is_translated_by_itself(page, translator, page_exports):
    text = f"{LINE}  {SENTENCES[1]}\n\n{SENTENCES[2]}"
    type_text(page, text, lines=3)
    outputs = translator.translate(SENTENCES)
    for line, output in enumerate(outputs):
        assert words(page, line).all_inner_texts() == output.split()
        assert page.locator("#output .source").nth(line).inner_text() == SENTENCES[line]
    # Alternatives and attention are those of the sentence that is chosen.
    page.get_by_text("Attention", exact=True).first.click()
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


def test_an_output_that_is_not_complete_says_so(page):
    type_text(page, LINE)
    assert page.locator(".cut").count() == 0
    page.get_by_text("Settings").click()
    page.get_by_label("min_length_ratio").fill("9")
    page.wait_for_selector(".line .cut")
    assert page.locator(".line .cut").inner_text().startswith("This output is not complete")


def test_a_long_text_is_not_cut_by_the_page(page):
    text = f"{LINE}\n" * 900
    page.get_by_label("Text", exact=True).focus()
    page.keyboard.insert_text(text)  # as a paste does
    assert page.get_by_label("Text", exact=True).input_value() == text
