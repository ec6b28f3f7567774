"""The parser, which turns the output symbols of a translator into trees and repairs them."""

import collections
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING

from t2t_lite.arrays import Forwarded
from t2t_lite.config import DecodeHParams
from t2t_lite.decoding.translator import Hypothesis, Translator, Weights, distinct, or_a_single_text, translates
from t2t_lite.errors import UserError
from t2t_lite.trees.linear import REPAIRS, TAGS, linearise, repair
from t2t_lite.trees.tokenizer import split_at_blanks
from t2t_lite.trees.tree import parse_brackets, tree_words
from t2t_lite.trees.treebank import clean

if TYPE_CHECKING:
    from t2t_lite.parsing.tree_constraint import TreeSymbols


class Parser:
    """The counterpart of `Translator` for parsing problems; returns only well-formed trees.

    Args:
      translator: a translator with the model.
      split: splits a line into words.

    Attributes:
      parsed: number of lines parsed.
      repaired: number of lines whose best tree needed repair.
      repairs: counts of each kind of repair in these trees.
    """

    def __init__(self, translator: Translator, split: Callable[[str], list[str]] = split_at_blanks) -> None:
        self._translator = translator
        self._split = split
        self.decode_hparams = translator.decode_hparams
        self.checkpoints = translator.checkpoints
        self.engine = translator.engine
        self._symbols: TreeSymbols | None = None  # made when a search first needs them
        self.parsed = self.repaired = 0
        self.repairs: collections.Counter[str] = collections.Counter()
        self._counting = threading.Lock()

    @classmethod
    def from_run_dir(
        cls,
        path: str | PathLike | Sequence[str | PathLike],
        *options: Forwarded,
        split: Callable[[str], list[str]] = split_at_blanks,
        **more: Forwarded,
    ) -> "Parser":
        """Loads the model of a run directory. Arguments and errors are those of `Translator.from_run_dir`."""
        return cls(Translator.from_run_dir(path, *options, **more), split)

    @classmethod
    def from_export(
        cls,
        path: str | PathLike,
        *options: Forwarded,
        split: Callable[[str], list[str]] = split_at_blanks,
        **more: Forwarded,
    ) -> "Parser":
        """Loads an export. Arguments and errors are those of `Translator.from_export`."""
        return cls(Translator.from_export(path, *options, **more), split)

    def __repr__(self) -> str:
        return repr(self._translator).replace(type(self._translator).__name__, type(self).__name__, 1)

    @translates
    def translate(
        self, lines: Sequence[str], return_scores: bool = False, **options: Forwarded
    ) -> list[str] | list[Hypothesis]:
        """Parses lines. Takes the arguments of `Translator.translate`, but no prefixes or phrases.

        Returns:
          the tree of each line, in order: "(TOP (S ...))"; "" for a line without words. With `return_scores`, the
          `Hypothesis` of each line.
        """
        best = self.best(lines, **options)
        return best if return_scores else [hypothesis.text for hypothesis in best]

    def best(self, lines: Sequence[str], with_scores: bool = True, **options: Forwarded) -> list[Hypothesis]:
        """Returns the best tree for each line. Takes the arguments of `Translator.best`, but no prefixes or phrases."""
        words, texts = self._cut(lines, options)
        hypotheses = self._translator.best(texts, with_scores, **self._constrained(words, options))
        return [self._trees(each, [one])[0] for each, one in zip(words, hypotheses, strict=True)]

    @or_a_single_text("lines")
    def n_best(self, lines: Sequence[str], **options: Forwarded) -> list[list[Hypothesis]]:
        """Returns all trees found for each line, best first, or samples in the order in which they were drawn.

        Of outputs that give the same tree after repair, only the best is returned; samples are all returned.
        """
        words, texts = self._cut(lines, options)
        is_sampled = self._settings(options).sampling_method != "argmax"
        hypotheses = self._translator.n_best(texts, **self._constrained(words, options))
        trees = [self._trees(each, beams) for each, beams in zip(words, hypotheses, strict=True)]
        return trees if is_sampled else list(map(distinct, trees))

    @or_a_single_text("inputs", "targets")
    def score(self, inputs: Sequence[str], targets: Sequence[str], first_line: int = 1) -> list[Hypothesis]:
        """Scores given trees in brackets. Cleans them first and ignores their words, and tags that the model lacks.

        Raises:
          UserError: if a target is not a tree, or does not have as many words as its line.
        """
        words, lines = self._cut(inputs, {})
        tags = self._tags()
        symbols = [
            _tree_symbols(target, len(each), tags, f"line {number}")
            for number, (target, each) in enumerate(zip(targets, words, strict=True), start=first_line)
        ]
        scored = self._translator.score(lines, symbols, first_line)
        return [hypothesis._replace(text=text) for hypothesis, text in zip(scored, targets)]

    @property
    def attention_layers(self) -> Mapping[str, int]:
        """The number of layers for each kind of `attention`, see `Translator.attention_layers`."""
        return self._translator.attention_layers

    @or_a_single_text("line", "tree")
    def attention(
        self, line: Sequence[str], tree: Sequence[str], kind: str = "cross", layer: int | None = None
    ) -> list[Weights]:
        """Returns the attention weights of one layer for a line and its tree in brackets, see `Translator.attention`.

        The tokens of the tree are the symbols that the model writes: "(S", "XX" or a tag for a word, ")S".

        Raises:
          UserError: also if `tree` is not a tree with as many words as the line.
        """
        _, texts = self._cut(line, {})
        symbols = [self.symbols_of(*each) for each in zip(line, tree, strict=True)]
        return self._translator.attention(texts, symbols, kind, layer)

    def symbols_of(self, line: str, tree: str) -> str:
        """Returns the symbols that the model writes for a tree in brackets, separated by blanks.

        Raises:
          UserError: if `tree` is not a tree with as many words as the line.
        """
        return _tree_symbols(tree, len(self._split(line)), self._tags(), "the tree")

    def report(self) -> str:
        """Returns one line: how many of the best trees needed repair, and which repairs."""
        share = 100 * self.repaired / max(1, self.parsed)
        kinds = ", ".join(f"{kind} {self.repairs[kind]}" for kind in REPAIRS if self.repairs[kind])
        return f"{self.repaired:,} of {self.parsed:,} trees ({share:.1f}%) needed repair{': ' + kinds if kinds else ''}"

    def _cut(self, lines: Sequence[str], options: dict[str, Forwarded]) -> tuple[list[list[str]], list[str]]:
        """Returns (words of each line, lines in the model's input format). Raises UserError for unsupported options."""
        for name in ("prefixes", "phrases", "terms"):
            if options.pop(name, None):
                raise UserError(f"a parser does not support {name}, because its outputs are trees; omit `{name}`")
        words = [self._split(line) for line in lines]
        return words, [" ".join(each) for each in words]

    def options_of(self, batch: Sequence[str], **options: Forwarded) -> dict[str, Forwarded]:
        """Returns the options with which `Translator.translate` searches for the trees of lines.

        Args:
          batch: the lines to parse.
          options: options of `Translator.translate`, including settings of `DecodeHParams`.

        Returns:
          the options; if `only_trees` is set, a tree constraint replaces it.

        Raises:
          UserError: if the model does not write trees.
        """
        return self._constrained([self._split(line) for line in batch], options)

    def _constrained(self, words: list[list[str]], options: dict[str, Forwarded]) -> dict[str, Forwarded]:
        decode_hparams = self._settings(options)
        if not decode_hparams.only_trees:
            return options
        self.engine.check(decode_hparams, constraints=True)
        from t2t_lite.parsing.tree_constraint import TreeSymbols, only_trees  # needs TensorFlow

        if self._symbols is None:
            try:
                self._symbols = TreeSymbols.of(self._translator.vocabulary.tokens())
            except ValueError as error:
                raise UserError(f"only_trees=True is for parsing: this model does not write trees ({error})") from error
        constraint = only_trees(self._symbols, [len(each) for each in words])
        return options | {"only_trees": False, "constraints": [*options.get("constraints", ()), constraint]}

    def _settings(self, options: dict[str, Forwarded]) -> DecodeHParams:
        """Returns the search settings, changed by those among the options."""
        names = self.decode_hparams.names()
        return self.decode_hparams.replace(**{name: value for name, value in options.items() if name in names})

    def _tags(self) -> list[str]:
        return [token for token in self._translator.vocabulary.tokens() if token in TAGS]

    def _trees(self, words: list[str], beams: list[Hypothesis]) -> list[Hypothesis]:
        """Returns the hypotheses of one line with trees instead of symbols. Counts the repairs of the best tree."""
        if not words:
            return beams
        trees = [repair(hypothesis.text, words) for hypothesis in beams]
        needed = trees[0][1]
        with self._counting:
            self.parsed += 1
            self.repaired += bool(needed)
            self.repairs.update(needed)
        return [hypothesis._replace(text=str(tree)) for hypothesis, (tree, _) in zip(beams, trees)]


def _tree_symbols(text: str, num_words: int, tags: Collection[str], where: str) -> str:
    """Returns the symbols of a tree in brackets, see `linearise`.

    Raises UserError if the text is not one tree with `num_words` words. The message begins with `where`.
    """
    try:
        trees = [clean(tree) for tree in parse_brackets(text)]
    except ValueError as error:
        raise UserError(f"{where}: '{text[:40]}' is not a tree in brackets ({error})") from error
    if len(trees) != 1 or trees[0] is None:
        raise UserError(f"{where}: '{text[:40]}' is not one tree in brackets")
    if len(tree_words(trees[0])) != num_words:
        raise UserError(f"{where}: the tree has {len(tree_words(trees[0]))} words, but the line has {num_words}")
    return linearise(trees[0], tags)
