import pytest

from t2t_lite.trees.tokenizer import split_as_treebank, split_at_blanks

# line: its words, split at blanks
BLANKS = {
    "": "",
    " \t ": "",
    "John has a dog .": "John has a dog .",
    "John has a dog.": "John has a dog.",
    "  John\thas  a\u00a0dog \r\n": "John has a\u00a0dog",
    "It is ( almost ) done": "It is -LRB- almost -RRB- done",
    ") (": "-RRB- -LRB-",
    "f(x) :) ((": "f-LRB-x-RRB- :-RRB- -LRB--LRB-",  # brackets do not split words
    "(NP XX )NP a)b(c": "-LRB-NP XX -RRB-NP a-RRB-b-LRB-c",
    "It is -LRB- almost -RRB- done": "It is -LRB- almost -RRB- done",
    "`` Do n't , '' he said": "`` Do n't , '' he said",
    "[ a ] { b } < c >": "[ a ] { b } < c >",
    'Größe “naïve” 日本語 "x"': 'Größe “naïve” 日本語 "x"',
}

# line: its words, split by the rules of the treebank
TREEBANK = {
    "": "",
    " \t ": "",
    "\n": "",
    "Rain": "Rain",
    # Punctuation
    "John has a dog.": "John has a dog .",
    "  John\thas a\u00a0dog. \r\n": "John has a dog .",
    "Well, yes; no: never!": "Well , yes ; no : never !",
    "What?!": "What ? !",
    "Wait... no": "Wait ... no",
    "He waits -- and waits--still": "He waits -- and waits -- still",
    "self-made and/or 1/2": "self-made and/or 1/2",
    "Mr. Smith met Mrs. Jones.": "Mr. Smith met Mrs. Jones .",
    "It is 12:30, i.e. late.": "It is 12:30 , i.e. late .",
    "He earns $10,000.50 (3%) & more @ #1.": "He earns $ 10,000.50 -LRB- 3 % -RRB- & more @ # 1 .",
    # Brackets
    "(Don't!)": "-LRB- Do n't ! -RRB-",
    "It is (almost) done.": "It is -LRB- almost -RRB- done .",
    "f(x) :) ((": "f -LRB- x -RRB- : -RRB- -LRB- -LRB-",
    "[a] {b} <c>": "-LSB- a -RSB- -LCB- b -RCB- < c >",
    "a -LRB- b -RRB- c": "a -LRB- b -RRB- c",
    # Quotation marks
    'He said, "It\'s done."': "He said , `` It 's done . ''",
    '"Yes" (or "no")': "`` Yes '' -LRB- or `` no '' -RRB-",
    "``Yes'' or 'no'": "`` Yes '' or ' no '",
    "“Größe” «naïve» ‘x’": "`` Größe '' « naïve » ' x '",
    "—“‘Yes’”—": "— `` ' Yes ' '' —",
    # Contractions
    "I can't, won't, don't, isn't.": "I ca n't , wo n't , do n't , is n't .",
    "I've, I'll, I'd, I'm, we're, it's": "I 've , I 'll , I 'd , I 'm , we 're , it 's",
    "DON'T IT'S": "DO N'T IT 'S",
    "the dog's and the dogs' toys": "the dog 's and the dogs ' toys",
    "I cannot; gonna, gotta, wanna, gimme, lemme": "I can not ; gon na , got ta , wan na , gim me , lem me",
    # Other letters
    "Größe … 日本語 – naïve — Œuvre.": "Größe … 日本語 – naïve — Œuvre .",
    "l'Europe": "l'Europe",
}


@pytest.mark.parametrize(("line", "words"), BLANKS.items(), ids=map(repr, BLANKS))
def test_split_at_blanks_gives_the_words_of_a_tokenised_line(line, words):
    assert split_at_blanks(line) == words.split(" ") * bool(words)


@pytest.mark.parametrize(("line", "words"), TREEBANK.items(), ids=map(repr, TREEBANK))
def test_split_as_treebank_gives_the_words_of_plain_text(line, words):
    assert split_as_treebank(line) == words.split()
