"""Text in, text out: a trained model behind one method."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import tensorflow as tf

from t2t_lite import checkpoint_files
from t2t_lite.config import DecodeHParams
from t2t_lite.data.vocab import EOS_ID, PAD_ID, Vocabulary
from t2t_lite.decoding.beam_search import beam_search
from t2t_lite.errors import UserError
from t2t_lite.registry import MODELS
from t2t_lite.run_dir import list_checkpoints, open_run_dir

# What warnings call the model's `max_positions`.
_POSITIONS = "all that learned positions cover (max_length)"


class Translator:
    """Translates lines with beam search.

    Args:
      model: a built `Seq2SeqModel` with its weights.
      vocabulary: the targets' vocabulary that it was trained with.
      decode_hparams: how to search.
      warn: takes a line about an input or an output that was cut.
      checkpoint: where the weights came from, for reports.
      inputs_vocabulary: the inputs' vocabulary; None if both sides share one.
    """

    def __init__(
        self,
        model,
        vocabulary: Vocabulary,
        decode_hparams: DecodeHParams,
        warn: Callable[[str], None] = print,
        checkpoint: Path | None = None,
        inputs_vocabulary: Vocabulary | None = None,
    ):
        self.checkpoint = checkpoint
        self.model = model
        self.vocabulary = vocabulary
        self.inputs_vocabulary = inputs_vocabulary or vocabulary
        self.decode_hparams = decode_hparams
        self._warn = warn
        self._search = tf.function(
            self._search_batch,
            input_signature=[tf.TensorSpec([None, None], tf.int32)],
        )

    @classmethod
    def from_run_dir(
        cls,
        path: Path,
        decode_hparams: str = "",
        checkpoint_path: Path | None = None,
        warn: Callable[[str], None] = print,
    ) -> "Translator":
        """Loads the model of a run directory: its average of checkpoints if there is one, else its last checkpoint.

        Args:
          path: the run directory.
          decode_hparams: "name=value,..." to change the problem's defaults.
          checkpoint_path: another checkpoint to use, without ending ("run/ckpt-2000").
          warn: as the class takes it.

        Raises:
          UserError: if there is no checkpoint, or it does not fit.
        """
        run_dir = open_run_dir(path)
        checkpoint = str(checkpoint_path or _best_checkpoint(run_dir.path)).removesuffix(".index")
        if not Path(f"{checkpoint}.index").exists():
            raise UserError(f"--checkpoint_path={checkpoint}: there is no {checkpoint}.index")
        last = list_checkpoints(run_dir.path)
        if not checkpoint_path and last and last[-1][0] > int(checkpoint.rsplit("-", 1)[1]):
            warn(f"{checkpoint} is older than {last[-1][1]}; run t2t-lite-avg again to use the later steps")
        settings = run_dir.problem.decode_hparams.override(decode_hparams)
        targets = inputs = Vocabulary(run_dir.vocabulary)
        if run_dir.inputs_vocabulary != run_dir.vocabulary:
            inputs = Vocabulary(run_dir.inputs_vocabulary)
        # Float32 whatever training used: the weights are float32, and the result does not depend on the machine.
        hparams = run_dir.hparams.replace(precision="float32")
        model = MODELS[hparams.model](hparams, targets.size, inputs.size)
        model.build()
        checkpoint_files.restore(Path(checkpoint), "model", checkpoint_files.by_name(model.variables))
        return cls(model, targets, settings, warn, Path(checkpoint), inputs)

    def translate(self, lines: Sequence[str], first_line: int = 1) -> list[str]:
        """Translates lines.

        Args:
          lines: texts without line ends.
          first_line: the number of the first of them, for warnings.

        Returns:
          the translation of each line, in order. A line without any text gives an empty line.
        """
        if not lines:
            return []
        ids = self._encode(lines, first_line)
        lengths = ids.row_lengths().numpy()
        outputs = [""] * len(lines)
        unended = []
        with_text = [row for row, line in enumerate(lines) if line.strip()]
        with_text.sort(key=lambda row: -lengths[row])
        for rows in _by_tokens(with_text, lengths, self.decode_hparams.batch_tokens):
            found = self._search(tf.gather(ids, rows).to_tensor(PAD_ID))
            unended += [row for row, output in zip(rows, found.numpy()) if EOS_ID not in output]
            for row, text in zip(rows, self.vocabulary.decode(found).numpy()):
                outputs[row] = text.decode("utf-8", errors="replace")
        positions = self.model.max_positions
        for row in sorted(unended):
            # Else extra_length stopped it, which stands for "no sensible output is longer".
            if positions is not None and lengths[row] + self.decode_hparams.extra_length > positions:
                self._warn(f"line {first_line + row}: the output was cut at {positions} pieces, which is {_POSITIONS}")
        return outputs

    def _encode(self, lines: Sequence[str], first_line: int) -> tf.RaggedTensor:
        """Returns the ids of the sources, int32 [lines, (length)], those that are too long cut and told of."""
        ids = self.inputs_vocabulary.encode(tf.constant(list(lines)))
        limit, positions = self.decode_hparams.max_input_length, self.model.max_positions
        told = f"max_input_length={limit}; raise that in --decode_hparams"
        if positions is not None and positions <= limit:
            limit = positions
            told = f"{limit}, which is {_POSITIONS}; split it, or train with a larger max_length"
        for number, length in enumerate(ids.row_lengths().numpy(), start=first_line):
            if length > limit:
                self._warn(f"line {number} has {length} pieces and was cut to {told}")
        # Cut before the end symbol, so that every source still ends with one.
        return tf.concat([ids[:, :-1][:, : limit - 1], tf.fill([len(lines), 1], EOS_ID)], axis=1)

    def _search_batch(self, inputs):
        """Returns the best output's ids, int32 [batch, length], for sources int32 [batch, source length]."""
        settings = self.decode_hparams
        input_lengths = tf.math.count_nonzero(inputs, axis=1, dtype=tf.int32)
        limits = input_lengths + settings.extra_length
        if self.model.max_positions is not None:
            limits = tf.minimum(limits, self.model.max_positions)
        max_length = tf.reduce_max(limits)
        memory, caches = self.model.start_decoding(inputs, settings.beam_size, max_length)
        result = beam_search(
            lambda ids, position, state: self.model.decode_step(ids, position, memory, state),
            caches,
            tf.shape(inputs)[0],
            self.vocabulary.size,
            beam_size=settings.beam_size,
            alpha=settings.alpha,
            max_length=max_length,
            length_limits=limits,
        )
        return result.ids[:, 0, :]


def _best_checkpoint(path: Path) -> Path:
    for kind in ("average", "ckpt"):
        if found := list_checkpoints(path, kind):
            return found[-1][1]
    raise UserError(f"{path} has no checkpoint yet; train first, with t2t-lite-trainer --output_dir={path}")


def _by_tokens(rows: list[int], lengths, batch_tokens: int) -> Iterator[list[int]]:
    """Cuts rows, which come longest first, into batches of at most `batch_tokens` pieces, padding included."""
    batch: list[int] = []
    for row in rows:
        if batch and (len(batch) + 1) * lengths[batch[0]] > batch_tokens:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch
