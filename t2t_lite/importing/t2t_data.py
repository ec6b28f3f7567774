"""Imports data from tensor2tensor: its shards become the data of a problem, with the same records."""

import collections
import contextlib
import copy
import dataclasses
import hashlib
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from t2t_lite.data.generation.shards import LONGER, Statistics
from t2t_lite.data.generation.text_checks import PairProgress
from t2t_lite.data.manifest import FILENAME, IMPORTED, WORK, Manifest, VocabularyEntry, check_data, read_manifest
from t2t_lite.data.pipeline import write_index
from t2t_lite.data.problem import SIDES, SPLITS, Problem
from t2t_lite.data.vocab import EOS_ID, PAD_ID, Vocabulary, open_vocabulary
from t2t_lite.errors import UserError
from t2t_lite.files import file_sha256, make_folder, split_paths
from t2t_lite.importing.t2t_model import BYTES, import_t2t_vocabulary

_SHARD = re.compile(r"(.+)-(train|dev|test)-(\d{5})-of-(\d{5})")
_BATCH = 4096  # number of records that are parsed together
_CHECKED = 100  # number of records per batch whose text is encoded again, to check the vocabulary

# The shards of each split, in order.
Shards = Mapping[str, Sequence[Path]]


def import_shards(
    source: Path, data_dir: Path, problem: Problem, t2t_problem: str, say: Callable[[str], None]
) -> Manifest:
    """Writes the data of a problem from tensor2tensor's shards. The manifest is written last.

    Records are copied: token ids stay the same, and nothing is tokenized again. Dev and test are also written as text,
    decoded from the ids. tensor2tensor often has no test split; in that case, the new test split is empty.

    Args:
      source: tensor2tensor's data_dir, with shards and vocabulary.
      problem: the problem to which the data will belong. Its `vocab_file` names the vocabulary, or two vocabularies
        separated by a comma; "": the one in `source`.
      t2t_problem: the problem's name in the shards' file names; "": that of `problem` if it occurs, else the only name.
    """
    if read_manifest(data_dir, problem) is not None:
        raise UserError(f"`data_dir={data_dir}` already has data of '{problem.data_name}'; pass another folder")
    has_own_form = type(problem).for_model is not Problem.for_model or any(map(problem.symbols_of, SIDES))
    if not problem.has_inputs or problem.writes_trees or has_own_form:
        raise UserError(
            f"the records of '{problem.data_name}' are not plain pairs of texts; pass `problem=text_pairs` or another "
            f"translation problem"
        )
    if source.resolve() == data_dir.resolve():
        raise UserError(f"`data_dir={data_dir}` is the folder of the shards; pass another folder")
    name, shards = _find_shards(source, t2t_problem, problem.data_name)
    is_new = not data_dir.exists()
    problem = copy.copy(problem)
    problem.vocab_file = problem.vocab_file or _find_vocabulary(source, name)
    make_folder(data_dir, "`data_dir`")
    work = data_dir / f"{problem.data_name}-import{WORK}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    try:
        _write(problem, shards, work, say)
        for path in work.iterdir():
            if (data_dir / path.name).exists():
                raise UserError(f"{data_dir / path.name} already exists; remove it, or pass another `data_dir`")
        for path in sorted(work.iterdir(), key=lambda path: path.name == FILENAME.format(problem.data_name)):
            path.rename(data_dir / path.name)
    finally:
        shutil.rmtree(work, ignore_errors=True)
        if is_new:
            with contextlib.suppress(OSError):  # raised if the folder is not empty
                data_dir.rmdir()
    return check_data(data_dir, problem)


def _write(problem: Problem, shards: Shards, folder: Path, say: Callable[[str], None]) -> None:
    given = split_paths(problem.vocab_file)
    if len(given) != (1 if problem.shared_vocabulary else 2):
        raise UserError(
            f"'{problem.data_name}' has {'one vocabulary' if problem.shared_vocabulary else 'two vocabularies'}, but "
            f"`vocab_file={problem.vocab_file}` names {len(given)}; pass one file for each vocabulary"
        )
    made = []
    for side, source in zip(SIDES, given):
        made.append(folder / problem.vocab_filename(side, 0))
        import_t2t_vocabulary(source, made[-1])
    vocabularies = open_vocabulary(made[0]), open_vocabulary(made[-1])
    inputs, targets = (
        VocabularyEntry(file=each.path.name, sha256=each.sha256, size=each.size) for each in vocabularies
    )
    manifest = Manifest(
        problem=problem.data_name,
        vocabulary=targets,
        splits={},
        sources={path.name: file_sha256(path) for paths in shards.values() for path in paths},
        inputs_vocabulary=None if problem.shared_vocabulary else inputs,
        settings={IMPORTED: "t2t"},
    )
    say(f"{problem.data_name}: using the vocabulary {problem.vocab_file}")
    held_out: dict[str, set[bytes]] = {}  # digests of the sources in dev, later also of those in test
    for split in (*SPLITS[1:], SPLITS[0]):
        statistics = _write_split(problem, split, shards[split], vocabularies, folder, held_out, say)
        for other, count in statistics.overlap.items():
            say(f"{problem.data_name}: {split}: the sources of {count:,} pairs are also in {other}")
        plan = hashlib.sha256("".join(manifest.sources[path.name] for path in shards[split]).encode()).hexdigest()
        for number, path in enumerate(shards[split]):
            copied = folder / f"{problem.data_name}-{split}-{number:05d}-of-{len(shards[split]):05d}"
            shutil.copyfile(path, copied)
            manifest.add_shard(split, plan, copied.name, copied.stat().st_size)
        manifest.finish_split(split, plan, statistics.examples, statistics.as_json())
    write_index(folder, manifest)
    dataclasses.replace(manifest, train_pairs=manifest.splits["train"]["examples"]).write(folder)


def _write_split(
    problem: Problem,
    split: str,
    shards: Sequence[Path],
    vocabularies: Sequence[Vocabulary],
    folder: Path,
    held_out: dict[str, set[bytes]],
    say: Callable[[str], None],
) -> Statistics:
    """Checks a split. Writes dev or test as text and adds their sources to `held_out`. Returns the statistics."""
    statistics, digests = Statistics(), set()
    progress = PairProgress(f"{problem.data_name}: {split}: reading", say)
    with contextlib.ExitStack() as stack:
        names = [] if split == "train" else [problem.text_filename(split, side) for side in SIDES]
        texts = [stack.enter_context(open(folder / name, "w", encoding="utf-8", newline="")) for name in names]
        for sides in _checked_records(shards, vocabularies):
            lengths = [[len(ids) for ids in side] for side in sides]
            for side, counts in zip((*SIDES, LONGER), (*lengths, map(max, *lengths))):
                statistics.lengths[side].update(counts)
            sources = [hashlib.md5(ids.tobytes(), usedforsecurity=False).digest() for ids in sides[0]]
            statistics.overlap.update(other for source in sources for other in held_out if source in held_out[other])
            digests.update(sources if split != "train" else ())
            for file, ids, vocabulary in zip(texts, sides, vocabularies):
                lines = vocabulary.decode([row.tolist() for row in ids])
                if any("\n" in line for line in lines):
                    raise UserError(
                        f"{shards[0].parent} has a {split} example whose text contains a line break; remove it"
                    )
                # If most lines encode to other ids than those in their records, the vocabulary is wrong.
                encoded = vocabulary.ids_of(lines[:_CHECKED])
                is_same = [list(row) == again for row, again in zip(ids, encoded)]
                if sum(is_same) < len(is_same) / 2:
                    raise UserError(
                        f"{vocabulary.path.name} encodes the texts in {shards[0]} to other ids than those in the "
                        f"records; pass the vocabulary of these shards with `vocab_file`"
                    )
                file.writelines(f"{line}\n" for line in lines)
            progress(statistics.examples)
    held_out[split] = digests
    say(f"{problem.data_name}: {split}: {statistics.examples:,} pairs")
    return statistics


def _checked_records(shards: Sequence[Path], vocabularies: Sequence[Vocabulary]) -> Iterator[list[list[np.ndarray]]]:
    """Yields the ids of inputs and targets, int64, for batches of records. Raises UserError if a record is unusable."""
    features = {side: tf.io.RaggedFeature(tf.int64) for side in SIDES}
    for path in shards:
        first = 0
        try:
            for records in tf.data.TFRecordDataset(str(path)).batch(_BATCH):
                parsed = tf.io.parse_example(records, features)
                ids, splits = (
                    [getattr(parsed[side], name).numpy() for side in SIDES] for name in ("values", "row_splits")
                )
                for side, vocabulary, of_side, starts in zip(SIDES, vocabularies, ids, splits):
                    _check_ids(path, first, side, of_side, starts, vocabulary)
                yield [np.split(of_side, starts[1:-1]) for of_side, starts in zip(ids, splits)]
                first += len(splits[0]) - 1
        except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
            raise UserError(f"{path} is damaged or does not contain tf.train.Example records; copy it again") from error
        if not first:
            raise UserError(f"{path} has no records; copy it again")


def _check_ids(path: Path, first: int, side: str, ids: np.ndarray, splits: np.ndarray, vocabulary: Vocabulary) -> None:
    """Raises UserError if a row, ids[splits[i] : splits[i + 1]], is not text of the vocabulary plus the end symbol."""
    lengths = np.diff(splits)
    if not lengths.all():
        raise UserError(f"{path}, record {first + np.argmin(lengths) + 1:,} has no {side}; remove this record")
    if ids.min() < 0 or ids.max() >= vocabulary.size:
        worst = ids.min() if ids.min() < 0 else ids.max()
        raise UserError(
            f"{path} has the id {worst:,} in its {side}, but {vocabulary.path.name} has only {vocabulary.size:,} "
            f"tokens; pass the vocabulary of these shards with `vocab_file`"
        )
    is_end = np.add.reduceat((ids == EOS_ID).astype(np.int64), splits[:-1])
    wrong = (ids[splits[1:] - 1] != EOS_ID) | (is_end > 1) | (np.add.reduceat(ids == PAD_ID, splits[:-1]) > 0)
    if wrong.any():
        raise UserError(
            f"{path}, record {first + np.argmax(wrong) + 1:,}: its {side} must be one text followed by the end "
            f"symbol ({EOS_ID}); packed examples and tasks that are not text-to-text cannot be imported"
        )


def _find_shards(source: Path, t2t_problem: str, data_name: str) -> tuple[str, dict[str, list[Path]]]:
    """Returns (the problem's name in the shards' file names, the shards of each split)."""
    if not source.is_dir():
        raise UserError(f"{source} is not a folder; pass tensor2tensor's data_dir")
    by_problem: dict[str, dict[str, dict[str, Path]]] = collections.defaultdict(lambda: collections.defaultdict(dict))
    for path in sorted(source.iterdir()):
        if (match := _SHARD.fullmatch(path.name)) and path.is_file():
            name, split, number, total = match.groups()
            by_problem[name][f"{split} of {total}"][number] = path
    name = t2t_problem or (
        data_name if data_name in by_problem else next(iter(by_problem)) if len(by_problem) == 1 else ""
    )
    if name not in by_problem:
        names = ", ".join(by_problem) or "none"
        how = (
            "choose one with `t2t_problem`"
            if by_problem
            else "the files must be named NAME-train-00000-of-00100 and so on"
        )
        raise UserError(f"{source} has shards of these problems: {names}{f' (no {name})' if name else ''}; {how}")
    shards: dict[str, list[Path]] = {split: [] for split in SPLITS}
    for of, paths in by_problem[name].items():
        split, _, total = of.split()
        if shards[split]:
            raise UserError(f"{source} has two sets of {split} shards of {name} with different totals; keep only one")
        if missing := [number for number in range(int(total)) if f"{number:05d}" not in paths]:
            raise UserError(f"{source} lacks {name}-{split}-{missing[0]:05d}-of-{total}; copy it, too")
        shards[split] = [paths[number] for number in sorted(paths)]
    for split in ("train", "dev"):
        if not shards[split]:
            raise UserError(f"{source} has no {split} shards of {name}; copy {name}-{split}-00000-of-... there, too")
    return name, shards


def _find_vocabulary(source: Path, name: str) -> str:
    """Returns the path of the problem's only vocabulary in a folder, or else of the only vocabulary there."""
    vocabularies = sorted(path for path in source.glob("vocab.*") if path.is_file())
    # The problem translate_ende_wmt32k has the vocabulary vocab.translate_ende_wmt32k.32768.subwords.
    named = [path for path in vocabularies if path.name.split(".")[1] == name] or vocabularies
    if len(named) != 1:
        listed = ", ".join(path.name for path in named) or "no file vocab.*"
        raise UserError(
            f"the vocabulary of the shards is unknown: {source} has {listed}; pass it with `vocab_file`, or pass "
            f"`vocab_file={BYTES}` if the tokens are bytes"
        )
    return str(named[0])
