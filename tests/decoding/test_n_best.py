"""N-best lists: each text once, best first."""

from t2t_lite.decoding.translator import Translator

LINES = ["The old man sees the small dogs.", "I sleep.", "", "Does the girl who is tired sing in the garden?"]


def test_a_list_has_each_text_once_with_its_best_score(small_run):
    translator = Translator.from_run_dir(small_run, "extra_length=5", xla_compile=False)
    settings = {"beam_size": 6, "diverse_beam_groups": 3, "diverse_beam_strength": 0.1}
    beams = translator.n_best(LINES, **settings)
    assert all(len({each.text for each in line}) == len(line) for line in beams)
    assert any(len(line) < 6 for line in beams if line[0].text)  # else the groups found nothing twice
    best = translator.translate(LINES, return_scores=True, **settings)
    assert [line[0].text for line in beams] == [each.text for each in best]
    for line in beams:
        assert [each.score for each in line] == sorted((each.score for each in line), reverse=True)
