"""Hostile HTML costs no more than its size."""

import time
import tracemalloc

import pytest
from support.hostile_html import CONSTRUCTIONS

from t2t_lite.serving.html import Html


@pytest.mark.parametrize("construction", CONSTRUCTIONS)
def test_hostile_markup_takes_time_and_memory_in_proportion_to_its_size(construction):
    used = []
    for size in (5_000, 20_000, 50_000):
        markup = CONSTRUCTIONS[construction](size)
        begin = time.thread_time()
        Html(markup)
        assert time.thread_time() - begin < 1
        tracemalloc.start()
        page = Html(markup)
        for _ in range(3):
            assert len(page.with_texts([f"{text}." for text in page.texts])) < 3 * size
        used.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert used[-1] < 20 * used[0] and used[-1] < 20 * 2**20
