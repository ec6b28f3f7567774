"""Makes the outputs of t2t-lite-decoder: lines of translations, n-best lists as JSON, scores, alignments; pictures.

`ResumableWriter` writes them block by block, so that an interrupted run resumes after the last complete block.
"""

import argparse
import contextlib
import gzip
import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from t2t_lite.bin import cli
from t2t_lite.decoding.translator import Hypothesis, Translator
from t2t_lite.errors import UserError
from t2t_lite.files import check_output, growing_path, one_line, progress_path, write_text
from t2t_lite.parsing.parser import Parser
from t2t_lite.visualization.attention import AttentionPicture
from t2t_lite.visualization.figures import FORMS, MAX_SENTENCES

# An input line: a text, or a tuple of texts that belong together. Only its `repr` is used.
Line = TypeVar("Line", bound="str | tuple[str, ...]")


class OutputWriter:
    """Turns blocks of input lines into output lines, and draws their attention. The flags determine the kind of output.

    `options` are those of all searches, such as the terms of a glossary. `_pairs` are the first non-blank lines with
    their best translations, for a picture; `_num_pairs` is the number of all non-blank lines.
    """

    def __init__(self, translator: Translator | Parser, arguments: argparse.Namespace, **options: Any) -> None:
        self._translator, self._options = translator, options
        self._arguments = arguments
        self._pairs: list[tuple[str, str]] = []
        self._num_pairs = 0

    def outputs_of(
        self, lines: Sequence[tuple[str, ...]], first_line: int, on_done: Callable[[int], None] | None = None
    ) -> list[list[str]]:
        """Returns the lines of each output file. A tuple in `lines` is a text with its prefix and phrases, if given.

        `on_done` is called after each batch with the number of lines in the batch.
        """
        if self._arguments.score_file:
            return [self._scores([line for (line,) in lines], first_line)]
        texts = [line[0] for line in lines]
        common = {"first_line": first_line, "on_done": on_done, **self._options}
        if self._arguments.prefix_file:
            common["prefixes"] = [line[1] for line in lines]
        if self._arguments.constraint_file:
            common["phrases"] = [line[-1].split("\t") for line in lines]
        if self._translator.decode_hparams.return_beams:
            beams = self._translator.n_best(texts, **common)
            outputs = [[json.dumps([hypothesis_dict(each) for each in line], ensure_ascii=False) for line in beams]]
            if self._arguments.n_best_format == "text":
                listed = enumerate(beams, start=first_line - 1)
                outputs = [["\n".join(_moses_line(number, each) for each in line) for number, line in listed]]
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
        self._pairs, self._num_pairs = [], 0
        for (text, *_), output in zip(lines, outputs, strict=True):
            if self._arguments.score_file:
                self._keep(*zip(self._given_pair(text)))
            else:
                is_list = self._translator.decode_hparams.return_beams
                self._keep([text], [json.loads(output)[0]["text"] if is_list else output])

    def _keep(self, texts: Sequence[str], outputs: Sequence[str]) -> None:
        pairs = [(text, output) for text, output in zip(texts, outputs, strict=True) if output]
        self._pairs += pairs[: MAX_SENTENCES - len(self._pairs)]
        self._num_pairs += len(pairs)

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

    def draw_attention(self) -> None:
        """Draws the attention of the first pairs: of as many as the picture can show."""
        file = Path(self._arguments.draw_attention)
        chosen = self._pairs[: MAX_SENTENCES if file.suffix.lower() == ".html" else 1]
        if not chosen:
            raise UserError(f"{file} was not written because there is no line to draw")
        attention_picture(self._arguments, self._translator, chosen).save(file)
        left = self._num_pairs - len(chosen)
        what = f"{len(chosen)} lines" if len(chosen) > 1 else "one line"
        cli.warn(f"drew the attention of {what} in {file}{f'; {left:,} more are left out' if left else ''}")


def attention_picture(
    arguments: argparse.Namespace, model: Translator | Parser, pairs: Sequence[tuple[str, str]]
) -> AttentionPicture:
    """Returns the picture that the flags describe, of lines with their translations or trees."""
    options: dict[str, Any] = {name: getattr(arguments, name) for name in ("layers", "heads", "query")}
    options |= {"kinds": arguments.kind, "form": arguments.form or FORMS[0], "words": arguments.words or None}
    return AttentionPicture(model, pairs, **options)


def hypothesis_dict(hypothesis: Hypothesis) -> dict[str, str | float | None]:
    """Returns a hypothesis as a JSON-compatible dict. The scores of a missing hypothesis are None."""
    exists = hypothesis.log_prob > float("-inf")
    return {
        "text": hypothesis.text,
        "score": round(hypothesis.score, 6) if exists else None,
        "log_prob": round(hypothesis.log_prob, 6) if exists else None,
    }


def _moses_line(number: int, hypothesis: Hypothesis) -> str:
    return f"{number} ||| {one_line(hypothesis.text)} ||| {hypothesis.score:.6f}"


class ResumableWriter:
    """Writes files with one line per input line. A file receives its final name once it is complete.

    The file "<name>.progress" beside the first output records the progress after each block. Files ending in .gz are
    compressed. Devices and pipes, such as /dev/null, are written in place. If `made_by`, a JSON value that identifies
    what the output depends on besides the input, changes, a run starts over.

    Attributes:
      lines: number of input lines already processed.
    """

    def __init__(self, paths: Sequence[Path], made_by: object) -> None:
        for number, path in enumerate(paths):
            check_output(path, str(path))
            if path.resolve() in [other.resolve() for other in paths[:number]]:
                raise UserError(f"{path} is named twice; use a separate file for each output")
        self._paths = paths
        self._made_by = json.loads(json.dumps(made_by))  # in the form in which it is read back
        self._progress = progress_path(paths[0])
        # Only regular files can be resumed; the others are written in place.
        self._partials = [path if path.exists() and not path.is_file() else growing_path(path) for path in paths]
        self._regular = [partial for path, partial in zip(paths, self._partials) if partial != path]
        self._files: list[BinaryIO] = []
        self._digest = hashlib.sha256()
        self.lines = 0

    def rest_of(self, read: Callable[[], Iterator[Line]], say: Callable[[str], None]) -> Iterator[Line]:
        """Opens the files and returns the input lines that have no output yet; `read` returns all input lines.

        `say` receives a line if the run resumes, or starts over because the input has changed.
        """
        before = self._known()
        if before:
            lines = read()
            for line in itertools.islice(lines, before["lines"]):
                self._count([line])
            if (self.lines, self._digest.hexdigest()) == (before["lines"], before["sha256"]):
                for partial, size in zip(self._partials, before["sizes"]):
                    os.truncate(partial, size)
                self._open()
                say(f"resuming after line {self.lines:,}: the output up to there is in {self._partials[0]}")
                return lines
            say(f"starting over: {self._partials[0]} was made from another input")
        self._digest, self.lines = hashlib.sha256(), 0
        self._progress.unlink(missing_ok=True)  # before the files that it describes are emptied
        for partial in self._regular:
            partial.write_bytes(b"")
        self._open()
        return read()

    def append(self, lines: Sequence[Line], outputs: Sequence[Sequence[str]]) -> None:
        """Writes a block: to each file, one line per input line."""
        for path, partial, file, texts in zip(self._paths, self._partials, self._files, outputs, strict=True):
            block = "".join(text + "\n" for text in texts).encode("utf-8", errors="replace")
            file.write(gzip.compress(block, mtime=0) if path.suffix == ".gz" else block)
            file.flush()
            if partial in self._regular:
                os.fsync(file.fileno())  # the block must reach the disk before the progress file records it
        self._count(lines)
        if self._regular == self._partials:
            state = {
                "made_by": self._made_by,
                "lines": self.lines,
                "sha256": self._digest.hexdigest(),
                "sizes": [partial.stat().st_size for partial in self._partials],
            }
            write_text(self._progress, json.dumps(state) + "\n")

    @contextlib.contextmanager
    def removed_if_empty(self) -> Iterator[None]:
        """Removes the files if the `with` block fails before the first line is processed."""
        try:
            yield
        except BaseException:
            if not self.lines:
                for partial in self._regular:
                    partial.unlink(missing_ok=True)
            raise

    def finish(self) -> None:
        for path, partial, file in zip(self._paths, self._partials, self._files):
            if path.suffix == ".gz" and not self.lines:
                file.write(gzip.compress(b"", mtime=0))  # an empty file is not a valid gzip file
            file.close()
            if path != partial:
                os.replace(partial, path)
        self._progress.unlink(missing_ok=True)

    def _open(self) -> None:
        # Opened once and closed only in `finish`, because the reader of a pipe stops when the pipe is closed.
        self._files = [open(partial, "ab") for partial in self._partials]  # noqa: SIM115

    def _count(self, lines: Sequence[Line]) -> None:
        for line in lines:
            self._digest.update(repr(line).encode("utf-8", errors="replace") + b"\n")
        self.lines += len(lines)

    def _known(self) -> dict[str, Any] | None:
        """Returns the progress after the last block, or None if the run cannot be resumed."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            state = json.loads(self._progress.read_text(encoding="utf-8"))
            there = [partial.stat().st_size for partial in self._partials]
            whole = all(0 <= size <= most for size, most in zip(state["sizes"], there, strict=True))
            numbers = all(type(number) is int for number in (state["lines"], *state["sizes"]))
            if state["made_by"] == self._made_by and whole and numbers and state["lines"] >= 0 and state["sha256"]:
                return state
        return None
