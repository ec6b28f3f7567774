"""What tests do in a browser: type, wait, and read attention weights back from what is drawn."""

import numpy as np


def type_text(page, text, delay=0, lines=1, clear=None):
    """Types text (or replaces all text by `clear`) and waits until that many lines are translated."""
    box = page.get_by_label("Text", exact=True)
    if clear is not None:
        box.fill(clear)
    elif delay:
        box.press_sequentially(text, delay=delay)
    else:
        box.fill(box.input_value() + text)
    done = """number => document.querySelectorAll('#output .line').length === number
        && document.querySelector('#output').getAttribute('aria-busy') === 'false'"""
    wait_until(page, done, lines)


def wait_until(page, expression, argument=None):
    """Waits until an expression of JavaScript is true; the policy of the page forbids the browser to wait by itself."""
    for _ in range(2000):  # not a limit on speed, but of a test that hangs
        if page.evaluate(expression, argument):
            return
        page.wait_for_timeout(30)
    raise AssertionError(f"{expression} did not become true: {page.inner_text('main')}")


def attention_weights(page, shape):
    """The weights [heads, queries, keys] that are drawn as the opacity of lines; what prints as 0 is not drawn."""
    weights = np.zeros(shape)
    lines = page.evaluate(
        """[...document.querySelectorAll('.attention-lines line')].map(line => [
            line.dataset.head, line.dataset.query, line.dataset.key, line.getAttribute('stroke-opacity'),
            line.getAttribute('y1'), line.getAttribute('y2')].map(Number))"""
    )
    for head, query, key, weight, start, end in lines:
        assert (start, end) == (query + 0.5, key + 0.5)  # it joins the rows of its tokens
        weights[int(head), int(query), int(key)] = weight
    return weights


def said(page):
    """Returns the text of the live region, which screen readers read out."""
    return page.locator(".attention-said").inner_text()


def words(page, line=0):
    """The words of the output of a line, as buttons."""
    return page.locator("#output .line").nth(line).locator(".word")


def open_attention(page):
    """Opens the part of the page with the attention, and waits until it is drawn."""
    page.get_by_text("Attention", exact=True).first.click()
    page.wait_for_selector(".attention-lines line", state="attached")


def wait_for_layer(page, kind, layer):
    """Waits until the picture is of a layer."""
    name = "cross-attention" if kind == "cross" else f"{kind} self-attention"
    start = f"{name}, layer {layer},"
    wait_until(page, "start => document.querySelector('.attention-caption').innerText.startsWith(start)", start)


def check_every_layer(page, translator, line, output):
    """Checks that what is drawn of every layer is what the model gives, and returns the weights of the last one."""
    page.get_by_label("whole words").uncheck()
    for kind, layers in translator.attention_layers.items():
        page.locator("[data-key=Attention]").select_option(kind)
        for layer in range(layers):
            page.locator("[data-key=Layer]").select_option(str(layer))
            wait_for_layer(page, kind, layer)
            page.wait_for_selector(".attention-lines line", state="attached")
            weights, queries, keys = translator.attention(line, output, kind, layer)
            drawn = attention_weights(page, weights.shape)
            np.testing.assert_allclose(drawn, weights, atol=6e-5)
            np.testing.assert_allclose(drawn.sum(-1), 1.0, atol=6e-5 * drawn.shape[-1])
            assert page.locator(".queries .attention-token").count() == len(queries)
            assert page.locator(".keys .attention-token").count() == len(keys)
    return weights
