"""The batches of a server: what is searched together, in which order, and what happens to the rest."""

import threading
import time

import pytest

from t2t_lite.serving.batching import MIN_TOKENS, Batcher, QueueFull


class Engine:
    """Returns each text in capitals; notes the batches, and can be held up."""

    def __init__(self):
        self.batches = []
        self.tasks = []
        self.go_on = threading.Event()
        self.go_on.set()
        self.is_busy = threading.Event()

    def __call__(self, task, texts):
        self.batches.append(list(texts))
        self.tasks.append(task)
        self.is_busy.set()
        assert self.go_on.wait(60)
        if "bad" in texts:
            raise ValueError("bad")
        return [text.upper() for text in texts]


@pytest.fixture
def engine():
    return Engine()


@pytest.fixture
def batcher(engine):
    """A function that returns a batcher; a text has as many tokens as characters.

    If it is busy, its only thread is held up, so that what is submitted waits until `engine.go_on` is set.
    """
    made = []

    def make(batch_tokens=4 * MIN_TOKENS, delay=0.0, max_waiting=100, workers=1, is_busy=True):
        made.append(Batcher(engine, len, batch_tokens, delay, max_waiting, workers))
        if is_busy:
            engine.go_on.clear()
            made[-1].submit("first", ["x"])
            assert engine.is_busy.wait(60)
            engine.batches.clear()
            engine.tasks.clear()
        return made[-1]

    yield make
    engine.go_on.set()
    for each in made:
        each.close()


def test_texts_of_several_requests_share_batches_and_each_gets_its_own_results(engine, batcher):
    queue = batcher()
    jobs = [queue.submit("task", [f"{letter}1", f"{letter}2"]) for letter in "abc"]
    engine.go_on.set()
    assert [job.future.result(60) for job in jobs] == [["A1", "A2"], ["B1", "B2"], ["C1", "C2"]]
    assert sorted(map(len, engine.batches)) == [2, 4]  # 4 texts of at most MIN_TOKENS fill a batch


def test_requests_that_want_something_else_are_searched_apart(engine, batcher):
    queue = batcher(batch_tokens=10_000)
    jobs = [queue.submit(task, ["a", "b"]) for task in ("beam 4", "beam 8", "beam 4")]
    engine.go_on.set()
    for job in jobs:
        job.future.result(60)
    assert engine.tasks == ["beam 4", "beam 8"]
    assert list(map(len, engine.batches)) == [4, 2]


def test_a_batch_has_texts_of_similar_length_within_the_limit_or_one_longer_text(engine, batcher):
    queue = batcher(batch_tokens=400)
    texts = ["a" * length for length in (100, 40, 101, 41, 99, 42, 98, 43)]
    job = queue.submit("task", texts)
    engine.go_on.set()
    assert job.future.result(60) == [text.upper() for text in texts]
    # The first batch is made for the text that came first: three of about 100 tokens fill it.
    assert [sorted(map(len, batch)) for batch in engine.batches] == [[99, 100, 101], [40, 41, 42, 43], [98]]
    assert all(len(batch) * max(map(len, batch)) <= 400 for batch in engine.batches)
    # A text longer than a batch is searched by itself.
    assert queue.submit("task", ["a" * 500, "b"]).future.result(60) == ["A" * 500, "B"]


def test_a_short_request_overtakes_the_rest_of_a_long_one(engine, batcher):
    queue = batcher(batch_tokens=2 * MIN_TOKENS, max_waiting=1000)
    long = queue.submit("task", [f"long {number:03d}" for number in range(300)])
    short = queue.submit("task", ["one line"])
    engine.go_on.set()
    short.future.result(60)
    long.future.result(60)
    place = next(number for number, batch in enumerate(engine.batches) if "one line" in batch)
    assert place <= 4, f"it waited for {place} of {len(engine.batches)} batches"


def test_a_request_that_fails_fails_alone(engine, batcher):
    queue = batcher(batch_tokens=1000)
    good, bad, other = (queue.submit("task", texts) for texts in (["a"], ["bad", "b"], ["c"]))
    engine.go_on.set()
    assert good.future.result(60) == ["A"] and other.future.result(60) == ["C"]
    with pytest.raises(ValueError, match="bad"):
        bad.future.result(60)
    assert queue.submit("task", ["later"]).future.result(60) == ["LATER"]


def test_a_request_that_fails_in_two_threads_leaves_both_at_work(engine, batcher):
    queue = batcher(batch_tokens=1000, workers=2, is_busy=False)
    for _ in range(3):
        with pytest.raises(ValueError, match="bad"):
            queue.submit("task", ["bad"] * 16).future.result(60)
    engine.go_on.clear()
    engine.batches.clear()
    job = queue.submit("task", [f"{number:02d}" for number in range(16)])
    while len(engine.batches) < 2:  # both are at work before either goes on
        time.sleep(0.01)
    engine.go_on.set()
    assert len(job.future.result(60)) == 16 and list(map(len, engine.batches)) == [8, 8]


def test_the_second_sentence_of_a_request_is_not_overtaken_for_ever(engine, batcher):
    queue = batcher(batch_tokens=8 * MIN_TOKENS, max_waiting=10_000)
    for _ in range(200):  # more than a batch is chosen from
        queue.submit("task", ["x" * 30])
    long = queue.submit("task", ["y" * 30, "z" * 30])
    batches = []

    def run(task, texts):
        batches.append(texts)
        for _ in range(8 * (len(batches) < 300)):  # as many new ones as are searched
            queue.submit("task", ["x" * 30])
        return texts

    queue._run = run
    engine.go_on.set()
    assert long.future.result(60) == ["y" * 30, "z" * 30]
    place = next(number for number, batch in enumerate(batches) if "z" * 30 in batch)
    assert place < 100, "it starved until nothing else came"


def test_a_full_queue_refuses_and_what_was_cancelled_makes_room_and_is_not_searched(engine, batcher):
    queue = batcher(max_waiting=3)
    gone, stays = queue.submit("task", ["a", "b"]), queue.submit("task", ["c"])
    with pytest.raises(QueueFull) as refused:
        queue.submit("task", ["d"])
    assert refused.value.retry_after >= 1
    queue.cancel(gone)
    assert gone.future.cancelled() and queue.num_waiting == 1
    another = queue.submit("task", ["d", "e"])  # there is room again
    engine.go_on.set()
    assert stays.future.result(60) == ["C"] and another.future.result(60) == ["D", "E"]
    assert not {"a", "b"} & {text for batch in engine.batches for text in batch}


def test_a_batch_that_is_not_full_waits_for_more_and_a_full_one_does_not(engine, batcher):
    queue = batcher(batch_tokens=2 * MIN_TOKENS, delay=3600, is_busy=False)
    first = queue.submit("task", ["a"])
    second = queue.submit("task", ["b"])  # fills the batch
    assert second.future.result(60) == ["B"] and first.future.result(60) == ["A"]
    assert engine.batches == [["a", "b"]]
    third = queue.submit("task", ["c"])
    assert not third.future.done() and queue.num_waiting == 1
    short = batcher(delay=0.2, is_busy=False)
    alone = short.submit("task", ["d"])
    assert alone.future.result(60) == ["D"] and alone.queue_seconds >= 0.2
