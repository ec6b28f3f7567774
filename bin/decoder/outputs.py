"""Makes the output lines of t2t-lite-decoder: translations, n-best lists as JSON, scores and alignments."""

import argparse
import json
from collections.abc import Callable, Iterable, Sequence

from t2t_lite.decoding.translator import Hypothesis, Translator
from t2t_lite.errors import UserError
from t2t_lite.files import one_line
from t2t_lite.parsing.parser import Parser
from t2t_lite.visualization.choices import MAX_SENTENCES


class OutputWriter:
    """Turns blocks of input lines into output lines. The flags determine the kind of output.

    `pairs` are the first non-blank lines with their best translations, for an attention picture; `num_pairs` is the
    number of all non-blank lines.
    """

    def __init__(self, translator: Translator | Parser, arguments: argparse.Namespace) -> None:
        self._translator = translator
        self._arguments = arguments
        self.pairs: list[tuple[str, str]] = []
        self.num_pairs = 0

    def outputs_of(
        self, lines: Sequence[tuple[str, ...]], first_line: int, on_done: Callable[[int], None] | None = None
    ) -> list[list[str]]:
        """Returns the lines of each output file. A tuple in `lines` is a text with its prefix and phrases, if given.

        `on_done` is called after each batch with the number of lines in the batch.
        """
        if self._arguments.score_file:
            return [self._scores([line for (line,) in lines], first_line)]
        texts = [line[0] for line in lines]
        common = {"first_line": first_line, "on_done": on_done}
        if self._arguments.prefix_file:
            common["prefixes"] = [line[1] for line in lines]
        if self._arguments.constraint_file:
            common["phrases"] = [line[-1].split("\t") for line in lines]
        if self._translator.decode_hparams.return_beams:
            beams = self._translator.n_best(texts, **common)
            outputs = [[json.dumps([hypothesis_dict(each) for each in line], ensure_ascii=False) for line in beams]]
            best = [line[0].text for line in beams]
        else:
            best = self._translator.translate(texts, **common)
            outputs = [[one_line(text) for text in best]]
        self._keep(texts, best)
        if self._arguments.alignments and isinstance(self._translator, Translator):  # a parser rejects the flag
            outputs.append(self._translator.align(texts, best, self._arguments.alignment_layer))
        return outputs

    def read_back(self, lines: Iterable[tuple[str, ...]], outputs: Iterable[str]) -> None:
        """Takes the pairs from all input lines and their lines in the first output, after a run that was resumed."""
        self.pairs, self.num_pairs = [], 0
        for (text, *_), output in zip(lines, outputs, strict=True):
            if self._arguments.score_file:
                self._keep(*zip(self._given_pair(text)))
            else:
                is_list = self._translator.decode_hparams.return_beams
                self._keep([text], [json.loads(output)[0]["text"] if is_list else output])

    def _keep(self, texts: Sequence[str], outputs: Sequence[str]) -> None:
        pairs = [(text, output) for text, output in zip(texts, outputs, strict=True) if output]
        self.pairs += pairs[: MAX_SENTENCES - len(self.pairs)]
        self.num_pairs += len(pairs)

    def _given_pair(self, line: str) -> list[str]:
        has_inputs = not isinstance(self._translator, Translator) or self._translator.has_inputs
        return line.split("\t") if has_inputs else ["", line]

    def _scores(self, lines: Sequence[str], first_line: int) -> list[str]:
        pairs = list(map(self._given_pair, lines))
        for number, pair in enumerate(pairs, start=first_line):
            if len(pair) != 2:
                where = f"{self._arguments.score_file}, line {number}"
                raise UserError(
                    f"{where}: found {len(pair) - 1} tabs instead of 1; write each line as INPUT<tab>TRANSLATION"
                )
        self._keep(*zip(*pairs))
        scored = self._translator.score(*zip(*pairs), first_line=first_line)
        return [f"{each.log_prob:.6f}\t{each.score:.6f}" for each in scored]


def hypothesis_dict(hypothesis: Hypothesis) -> dict[str, str | float | None]:
    """Returns a hypothesis as a JSON-compatible dict. The scores of a missing hypothesis are None."""
    exists = hypothesis.log_prob > float("-inf")
    return {
        "text": hypothesis.text,
        "score": round(hypothesis.score, 6) if exists else None,
        "log_prob": round(hypothesis.log_prob, 6) if exists else None,
    }
