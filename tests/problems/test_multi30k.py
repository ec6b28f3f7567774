"""The text of multi30k_ende_tokenised, against literal lines."""

import gzip

from t2t_lite.data.problem import get_problem


def test_captions_are_lower_cased_and_have_moses_punctuation_and_tokens(tmp_path):
    lines = {
        "en": ["A man's dog, “Rex”, isn't here...", "Two girls (aged 5-6) & a boy."],
        "de": ["Ein „großer“ Hund läuft z.B. über 3,5 m – schnell!", "ÄRZTE ohne Rad."],
    }
    files = {}
    for language, texts in lines.items():
        files[f"val.{language}.gz"] = tmp_path / f"val.{language}.gz"
        files[f"val.{language}.gz"].write_bytes(gzip.compress("".join(f"{text}\n" for text in texts).encode()))
    pairs = list(get_problem("multi30k_ende_tokenised").examples("dev", files))
    english, german = map(list, zip(*pairs))
    assert english == [
        "a man &apos;s dog , &quot; rex , &quot; isn &apos;t here ...",
        "two girls ( aged 5-6 ) &amp; a boy .",
    ]
    assert german == ["ein &quot; großer &quot; hund läuft z.b. über 3,5 m - schnell !", "ärzte ohne rad ."]
