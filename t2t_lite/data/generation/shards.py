"""Writes vocabularies, plain text and shards.

A record is a serialised tf.train.Example, one for each pair, with the int64 lists `inputs` and `targets`. An external
shuffle distributes any number of records over random shards in random order, and can be resumed: the pairs of a split
are encoded in chunks. The records of a chunk are assigned to random buckets and stored in a chunk file until the split
is done. A shard consists of several buckets and is written bucket by bucket, each in random order, so that only one
bucket at a time is in memory. All random numbers are seeded with the number of the chunk or bucket, so the output does
not depend on the number of workers or on interruptions.
"""

import collections
import concurrent.futures
import contextlib
import hashlib
import itertools
import json
import random
import shutil
import tempfile
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow
import tensorflow as tf

from t2t_lite.data.generation import text_checks
from t2t_lite.data.generation.options import GenerateOptions
from t2t_lite.data.generation.sources import source_digests
from t2t_lite.data.manifest import (
    WORK,
    Manifest,
    SplitEntry,
    StatisticsEntry,
    VocabularyEntry,
    generation_settings,
    vocabulary_settings,
)
from t2t_lite.data.pipeline import write_index
from t2t_lite.data.problem import SIDES, SPLITS, Example, Problem
from t2t_lite.data.text_files import read_lines, without_tags
from t2t_lite.data.vocab import Vocabulary, import_vocabulary, open_vocabulary, train_vocabulary
from t2t_lite.display import LOG
from t2t_lite.errors import UserError
from t2t_lite.files import file_sha256, partial_path, split_paths, write_text, written_whole
from t2t_lite.system.machine import num_cores

ENCODE_BATCH = 8192
MANY_DROPPED = 0.1  # share of dropped pairs in a dev or test split above which a warning is shown
LONGER = "longer"  # the longer side of a pair, which training compares with max_length


@dataclass
class Statistics:
    # number of dropped pairs by drop reason
    dropped: collections.Counter[str] = field(default_factory=collections.Counter)
    # number of kept pairs whose source is also in another split, by split
    overlap: collections.Counter[str] = field(default_factory=collections.Counter)
    # for "inputs", "targets" and the "longer" of both, a histogram of lengths in tokens, including the end symbol
    lengths: dict[str, collections.Counter[int]] = field(
        default_factory=lambda: {side: collections.Counter() for side in (*SIDES, LONGER)}
    )

    @property
    def examples(self) -> int:
        return sum(self.lengths["inputs"].values())

    @property
    def pairs(self) -> int:
        return self.examples + sum(self.dropped.values())

    def add(self, other: "Statistics") -> "Statistics":
        self.dropped.update(other.dropped)
        self.overlap.update(other.overlap)
        for side, lengths in other.lengths.items():
            self.lengths[side].update(lengths)
        return self

    def as_json(self) -> StatisticsEntry:
        return {
            "dropped": dict(sorted(self.dropped.items())),
            "overlap": dict(sorted(self.overlap.items())),
            "lengths": {
                side: {str(n): count for n, count in sorted(lengths.items())} for side, lengths in self.lengths.items()
            },
        }

    @classmethod
    def from_json(cls, stored: StatisticsEntry) -> "Statistics":
        lengths = stored["lengths"]
        return cls(
            collections.Counter(stored["dropped"]),
            collections.Counter(stored.get("overlap", {})),  # version 0.8 did not count it
            {side: collections.Counter({int(n): count for n, count in of.items()}) for side, of in lengths.items()},
        )


def encode_pairs(
    problem: Problem,
    split: str,
    pairs: Iterable[Example],
    vocabularies: Sequence[Vocabulary],
    held_out: Mapping[str, Collection[str]] = types.MappingProxyType({}),
) -> tuple[list[bytes], Statistics]:
    """Returns (the records of the pairs that the problem keeps, in order; the statistics of all pairs).

    `held_out` has the sources of other splits, as `comparison_texts` returns them; pairs with such a source are
    counted.
    """
    statistics, kept, compared = Statistics(), [], []
    for pair in pairs:
        if drop_reason := problem.drop_reason(split, pair):
            statistics.dropped[drop_reason] += 1
        else:
            kept.append(problem.for_model(pair))
            compared.append(getattr(pair, comparison_side(problem)))
    for source in comparison_texts(problem, compared) if held_out else ():
        statistics.overlap.update(name for name, sources in held_out.items() if source in sources)
    records = []
    for first in range(0, len(kept), ENCODE_BATCH):
        texts = zip(*kept[first : first + ENCODE_BATCH])
        encoded = [vocabulary.encode_all(side) for vocabulary, side in zip(vocabularies, texts)]
        of_sides = [ids.row_lengths().numpy() for ids in encoded]
        for side, lengths in zip((*SIDES, LONGER), (*of_sides, np.maximum(*of_sides))):
            values, counts = np.unique(lengths, return_counts=True)
            statistics.lengths[side].update(dict(zip(values.tolist(), counts.tolist())))
        records += _records(*encoded).numpy().tolist()
    return records, statistics


def comparison_side(problem: Problem) -> str:
    """Returns the side by which pairs in different splits are compared: "inputs", if there are any, else "targets"."""
    return SIDES[0] if problem.has_inputs else SIDES[1]


def comparison_texts(problem: Problem, texts: Iterable[str]) -> Iterator[str]:
    """Yields the texts of the `comparison_side` as they are compared: without tags."""
    symbols = problem.symbols_of(comparison_side(problem))
    return (without_tags(text, symbols) for text in texts)


# A graph runs without Python's global lock. With Python's protocol buffers, two workers were barely faster than one.
@tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int32, 1)] * 2, autograph=False)
def _records(inputs: tf.RaggedTensor, targets: tf.RaggedTensor) -> tf.Tensor:
    """Returns the bytes of tf.train.Example.SerializeToString(deterministic=True) for each row of ids."""
    one = tf.ones([inputs.nrows(), 1], tf.int32)

    def message(kind: str, sizes: tf.Tensor, **fields: tf.Tensor) -> tf.Tensor:
        return tf.io.encode_proto(sizes, list(fields.values()), list(fields), f"tensorflow.{kind}")[:, tf.newaxis]

    entries = []
    for name, ids in zip(SIDES, (inputs, targets)):
        lengths = tf.cast(ids.row_lengths(), tf.int32)[:, tf.newaxis]
        int64_list = message("Int64List", lengths, value=tf.cast(ids.to_tensor(), tf.int64))
        feature = message("Feature", one, int64_list=int64_list)
        key = tf.fill(tf.shape(one), name)
        entries.append(message("Features.FeatureEntry", tf.tile(one, [1, 2]), key=key, value=feature))
    return message("Example", one, features=message("Features", 2 * one, feature=tf.concat(entries, axis=1)))[:, 0]


# The order of records depends only on this seed, the plan and the sources.
SEED = 1706_03762
_COLUMN = "record"
_STATISTICS = "account"  # the metadata key of the statistics in a chunk file
# The average number of records shuffled together in memory, and the number of pairs encoded together.
BUCKET_RECORDS = 2**16
CHUNK_PAIRS = 2**15


@dataclass(frozen=True)
class Plan:
    """How the records of a split are distributed over shards, buckets and chunks."""

    split: str  # the name of the split
    num_shards: int  # number of files
    buckets_per_shard: int  # each bucket must fit into memory
    chunk_pairs: int  # number of pairs encoded together
    made_of: str = ""  # identifies everything that the records depend on, such as checksums of vocabularies

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:16]

    def buckets_of(self, shard: int) -> range:
        return range(shard * self.buckets_per_shard, (shard + 1) * self.buckets_per_shard)


def make_plan(
    problem: Problem,
    split: str,
    total: int | None,
    vocabularies: Sequence[Vocabulary],
    sources: Mapping[str, str],
    max_cases: int,
) -> Plan:
    num_shards = problem.shards_of(split)
    return Plan(
        split,
        num_shards,
        buckets_per_shard=max(1, round((total or 0) / (num_shards * BUCKET_RECORDS))),
        chunk_pairs=CHUNK_PAIRS,
        made_of=" ".join([*(each.sha256 for each in vocabularies), *sources.values(), str(max_cases)]),
    )


def buckets_of_chunk(plan: Plan, number: int, records: Sequence[bytes]) -> list[list[bytes]]:
    """Assigns the records of a chunk to random buckets; returns each bucket's records in their original order."""
    buckets = [[] for _ in range(plan.num_shards * plan.buckets_per_shard)]
    draws = random.Random(f"{SEED} {plan.split} chunk {number}").choices(range(len(buckets)), k=len(records))
    for bucket, record in zip(draws, records):
        buckets[bucket].append(record)
    return buckets


def in_random_order(plan: Plan, bucket: int, records: list[bytes]) -> list[bytes]:
    random.Random(f"{SEED} {plan.split} bucket {bucket}").shuffle(records)
    return records


def chunk_path(folder: Path, number: int) -> Path:
    return folder / f"chunk-{number:06d}.arrow"


def write_chunk(plan: Plan, folder: Path, number: int, records: Sequence[bytes], statistics: Statistics) -> None:
    """Writes a chunk file: an Arrow file with a batch of records for each bucket, and the statistics as metadata."""
    schema = pyarrow.schema([(_COLUMN, pyarrow.binary())], metadata={_STATISTICS: json.dumps(statistics.as_json())})
    with (
        written_whole(chunk_path(folder, number)) as partial,
        pyarrow.OSFile(str(partial), "wb") as file,
        pyarrow.ipc.new_file(file, schema) as writer,
    ):
        for bucket in buckets_of_chunk(plan, number, records):
            writer.write_batch(pyarrow.record_batch([pyarrow.array(bucket, pyarrow.binary())], schema=schema))


def statistics_of_chunk(folder: Path, number: int) -> Statistics:
    with _opened(folder, number) as reader:
        return Statistics.from_json(json.loads(reader.schema.metadata[_STATISTICS.encode()]))


def write_shard(plan: Plan, folder: Path, chunks: int, shard: int, path: Path) -> None:
    """Writes one shard from the chunk files; `path` appears when the shard is complete."""
    with written_whole(path) as partial, tf.io.TFRecordWriter(str(partial)) as writer:
        for bucket in plan.buckets_of(shard):
            records = []
            for number in range(chunks):
                with _opened(folder, number) as reader:
                    records += reader.get_batch(bucket).column(0).to_pylist()
            for record in in_random_order(plan, bucket, records):
                writer.write(record)


@contextlib.contextmanager
def _opened(folder: Path, number: int) -> Iterator[pyarrow.ipc.RecordBatchFileReader]:
    # Not memory-mapped, because the pages of the whole file would stay in memory.
    with pyarrow.OSFile(str(chunk_path(folder, number)), "rb") as file, pyarrow.ipc.open_file(file) as reader:
        yield reader


_T = TypeVar("_T")
_R = TypeVar("_R")


def split_pairs(problem: Problem, split: str, files: dict[str, Path], max_cases: int) -> Iterator[Example]:
    """Yields the pairs to use from a split: for train, the first `max_cases`, or all if that is 0."""
    limit = max_cases if split == "train" and max_cases else None
    return itertools.islice(problem.examples(split, files), limit)


@dataclass(frozen=True)
class SplitJob:
    problem: Problem
    plan: Plan  # how the records are distributed
    files: dict[str, Path]  # the sources by name
    max_cases: int  # maximum number of pairs in the train split; 0: all
    vocabularies: tuple[Vocabulary, Vocabulary]  # the vocabularies of inputs and targets
    data_dir: Path  # the folder for the shards
    manifest: Manifest  # records each shard and, when it is done, the split
    say: Callable[[str], None]  # receives lines about progress
    total: int | None = None  # number of pairs, if known
    held_out: Mapping[str, frozenset[str]] = field(default_factory=dict)  # see `encode_pairs`

    @property
    def name(self) -> str:
        return self.plan.split

    def pairs(self) -> Iterator[Example]:
        return split_pairs(self.problem, self.name, self.files, self.max_cases)

    @property
    def work(self) -> Path:
        return self.data_dir / f"{self.problem.data_name}-{self.name}.{self.plan.digest}{WORK}"

    def shard_path(self, shard: int) -> Path:
        return self.data_dir / self.problem.shard_filename(self.name, shard)

    def missing_shards(self) -> list[int]:
        known = self.manifest.shards_of_plan(self.name, self.plan.digest)
        return [
            shard
            for shard in range(self.plan.num_shards)
            if (path := self.shard_path(shard)).name not in known
            or not path.exists()
            or path.stat().st_size != known[path.name]
        ]

    def shard_is_done(self, shard: int) -> None:
        path = self.shard_path(shard)
        self.manifest.add_shard(self.name, self.plan.digest, path.name, path.stat().st_size)
        self.manifest.write(self.data_dir)

    def is_done(self, statistics: Statistics) -> None:
        """Records in the manifest that the split is complete, and removes intermediate files."""
        self.manifest.finish_split(self.name, self.plan.digest, statistics.examples, statistics.as_json())
        self.manifest.write(self.data_dir)
        shutil.rmtree(self.work, ignore_errors=True)

    def check(self, statistics: Statistics) -> None:
        """Compares the number of pairs with the published number and reports a difference.

        A difference in a test split is an error, because its scores would not be comparable.
        """
        name = self.problem.data_name
        if not statistics.examples:
            raise text_checks.no_examples(self.problem, self.name)
        difference = statistics.pairs - self.problem.published_counts.get(self.name, statistics.pairs)
        if not difference:
            return
        comparison = "more" if difference > 0 else "fewer"
        what = f"has {statistics.pairs:,} pairs, {abs(difference):,} {comparison} than published"
        if self.name == "test":
            raise UserError(f"the test split of '{name}' {what}: it is not the published test set; check its sources")
        self.say(f"{name}: {self.name}: {what}")


def write_split(job: SplitJob, num_workers: int) -> None:
    """Writes the missing shards of a split, `num_workers` chunks or shards in parallel; 0: one per core."""
    missing = job.missing_shards()
    if not missing and job.name in job.manifest.splits:
        return
    workers = num_workers or num_cores()
    # Threads are enough, because TensorFlow takes nearly all of the time and releases Python's global lock.
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        chunks = _encode_missing(job, pool, workers)
        statistics = Statistics()
        for number in range(chunks):
            statistics.add(statistics_of_chunk(job.work, number))
        job.check(statistics)

        def write(shard: int) -> int:
            write_shard(job.plan, job.work, chunks, shard, job.shard_path(shard))
            return shard

        progress = text_checks.PairProgress(
            f"{job.problem.data_name}: {job.name}: shuffling", job.say, statistics.examples
        )
        per_shard = statistics.examples // job.plan.num_shards
        for done, shard in enumerate(_in_turn(pool, write, missing, workers), start=1):
            job.shard_is_done(shard)
            progress(done * per_shard)
    job.is_done(statistics)


def _encode_missing(job: SplitJob, pool: concurrent.futures.Executor, workers: int) -> int:
    job.work.mkdir(parents=True, exist_ok=True)
    progress = text_checks.PairProgress(f"{job.problem.data_name}: {job.name}: encoding", job.say, job.total)
    chunks = 0

    def missing() -> Iterator[tuple[int, list[Example]]]:
        nonlocal chunks
        pairs = job.pairs()
        while chunk := list(itertools.islice(pairs, job.plan.chunk_pairs)):
            number, chunks = chunks, chunks + 1
            if not chunk_path(job.work, number).exists():
                yield number, chunk

    def encode(numbered: tuple[int, list[Example]]) -> tuple[int, int]:
        number, chunk = numbered
        records, statistics = encode_pairs(job.problem, job.name, chunk, job.vocabularies, job.held_out)
        write_chunk(job.plan, job.work, number, records, statistics)
        return number, len(chunk)

    for number, size in _in_turn(pool, encode, missing(), workers):
        progress(number * job.plan.chunk_pairs + size)
    return chunks


def _in_turn(
    pool: concurrent.futures.Executor, function: Callable[[_T], _R], arguments: Iterable[_T], workers: int
) -> Iterator[_R]:
    waiting: list[concurrent.futures.Future[_R]] = []
    for argument in arguments:
        waiting.append(pool.submit(function, argument))
        if len(waiting) > workers:
            yield waiting.pop(0).result()
    for future in waiting:
        yield future.result()


def write_split_text(problem: Problem, split: str, files: dict[str, Path], data_dir: Path) -> list[Example]:
    """Writes a split, one sentence per line, in source order. Returns its first FIRST_PAIRS pairs."""
    first_pairs = []
    paths = [data_dir / problem.text_filename(split, side) for side in SIDES]
    with contextlib.ExitStack() as stack:
        partial = [stack.enter_context(written_whole(path)) for path in paths]
        texts = [stack.enter_context(open(path, "w", encoding="utf-8", newline="")) for path in partial]
        for pair in split_pairs(problem, split, files, 0):
            if len(first_pairs) < text_checks.FIRST_PAIRS:
                first_pairs.append(pair)
            if problem.drop_reason(split, pair):
                continue
            if any("\n" in line for line in pair):
                raise UserError(f"problem '{problem.data_name}' has a {split} example with a line break; remove it")
            for text, line in zip(texts, pair):
                text.write(line + "\n")
    return first_pairs


def held_out_sources(problem: Problem, split: str, data_dir: Path) -> dict[str, frozenset[str]]:
    """Returns the sources, without tags, to compare with: those of dev and test for train, of dev for test."""
    side = comparison_side(problem)
    return {
        other: frozenset(comparison_texts(problem, read_lines(data_dir / problem.text_filename(other, side))))
        for other in {"train": ("dev", "test"), "test": ("dev",)}.get(split, ())
    }


def equal_splits(first_pairs: dict[str, list[Example]], split: str) -> list[str]:
    """Returns a note for each other split with the same first pairs, a sign that `examples` ignores the split."""
    return [
        f"{split} begins with the same {len(first_pairs[split])} pairs as {other}: if all pairs are the same, its "
        f"scores mean nothing; use different pairs for each split"
        for other in first_pairs
        if other != split and first_pairs[split] and first_pairs[split] == first_pairs[other]
    ]


def make_vocabularies(
    problem: Problem,
    statistics: text_checks.CorpusStatistics,
    data_dir: Path,
    say: Callable[[str], None],
    manifest: Manifest | None,
) -> list[str]:
    """Learns or imports one vocabulary per side or a shared one. Returns the file names, inputs before targets.

    `manifest` is from an interrupted run, whose file names are kept; None: a new run.
    """
    imported = _imported(problem)
    # All vocabularies are learned before any is renamed, so that an interruption leaves both or none.
    final_paths: dict[Path, Path] = {}
    names = []
    for index, sides in enumerate([SIDES] if problem.shared_vocabulary else [[side] for side in SIDES]):
        made = partial_path(data_dir / f"vocab.{problem.data_name}")
        if imported and imported[index]:
            import_vocabulary(Path(imported[index]), made)
        else:
            kind = problem.kind_of(sides[0])
            if kind != "bytes":
                unit = {"bpe": "BPE tokens", "wordpiece": "WordPiece tokens"}.get(kind, kind)
                say(f"{problem.data_name}: learning {problem.vocab_size} {unit} from {' and '.join(sides)}")
            settings = vocabulary_settings(problem, manifest)
            symbols = problem.symbols_of(sides[0])
            train_vocabulary(statistics.texts(sides), problem.vocab_size, made, kind, symbols, **settings)
        size = open_vocabulary(made).size
        if size < problem.vocab_size and not problem.vocab_file and problem.kind_of(sides[0]) not in ("bytes", "words"):
            say(
                f"{problem.data_name}: learned {size:,} tokens from {' and '.join(sides)}, not {problem.vocab_size:,} "
                f"(`vocab_size`): the text yields no more"
            )
        path = data_dir / (manifest.vocabularies[index]["file"] if manifest else problem.vocab_filename(sides[0], size))
        if path.exists() and file_sha256(path) != file_sha256(made):
            made.unlink()
            raise UserError(f"{path} exists but was not made from this text; remove it, or use another `data_dir`")
        final_paths[made] = path
        names += [path.name] * len(sides)
    for made, path in final_paths.items():
        made.replace(path)
    return names


def check_vocab_file(problem: Problem) -> None:
    """Raises UserError if `vocab_file` does not fit the problem. Does not read the problem's text."""
    with tempfile.TemporaryDirectory() as folder:
        for name in filter(None, _imported(problem)):
            try:
                import_vocabulary(Path(name), copied := Path(folder) / "vocabulary")
            except UserError as error:
                raise UserError(f"`vocab_file={problem.vocab_file}`: {error}") from error
            tokens = open_vocabulary(copied).tokens()
            if twice := [token for token in tokens[:3] if tokens.count(token) > 1]:
                LOG.warning(
                    f"{name} has the names of the symbols {' and '.join(twice)} a second time: models with it "
                    f"cannot be exported for CTranslate2; for that, make a vocabulary whose words are others"
                )


def _imported(problem: Problem) -> list[str]:
    """Returns the files in `vocab_file`, one for each vocabulary ("": learn that one); [] if it is not set."""
    imported = split_paths(problem.vocab_file) if problem.vocab_file else []
    number = 1 if problem.shared_vocabulary else 2
    if imported and len(imported) != number:
        raise UserError(
            f"'{problem.data_name}' has {number} vocabularies, but `vocab_file={problem.vocab_file}` names "
            f"{len(imported)}; pass one file for each, separated by a comma"
        )
    return imported


def check_same_vocabularies(vocabularies: Sequence[Vocabulary], manifest: Manifest, data_dir: Path) -> None:
    for vocabulary, made_with in zip(vocabularies, manifest.vocabularies):
        if vocabulary.sha256 != made_with["sha256"]:
            raise UserError(
                f"{vocabulary.path} is not the vocabulary that the data in {data_dir} was made with "
                f"({made_with['file']}); restore the original, or use another `data_dir`"
            )


def write_data(
    problem: Problem,
    files: dict[str, Path],
    data_dir: Path,
    manifest: Manifest | None,
    say: Callable[[str], None],
    options: GenerateOptions,
    write_split: Callable[[SplitJob], None],
) -> Manifest:
    """Writes everything that is missing: vocabularies, the text of dev and test, the shards of all splits, the index.

    `files` are the sources by name; `manifest` is from an interrupted run, or None.
    """
    first_pairs: dict[str, list[Example]] = {}  # of each split that this run reads, to detect equal splits
    names = [each["file"] for each in manifest.vocabularies] if manifest else []
    statistics = None
    if not names or not all((data_dir / name).exists() for name in names):
        statistics = text_checks.examine_corpus(problem, files, say, options.report)
        first_pairs["train"] = statistics.first_pairs
        if text := problem.drop_report():
            write_text(data_dir / f"dropped.{problem.data_name}.md", text)
        names = make_vocabularies(problem, statistics, data_dir, say, manifest)
    by_name = {name: open_vocabulary(data_dir / name) for name in dict.fromkeys(names)}
    vocabularies = by_name[names[0]], by_name[names[1]]
    if manifest is None:
        assert statistics is not None  # without a manifest there are no vocabularies, so the corpus was examined
        of_inputs, of_targets = (
            VocabularyEntry(file=each.path.name, sha256=each.sha256, size=each.size) for each in vocabularies
        )
        manifest = Manifest(
            problem=problem.data_name,
            vocabulary=of_targets,
            splits={},
            sources=source_digests(files),
            inputs_vocabulary=None if problem.shared_vocabulary else of_inputs,
            settings=generation_settings(problem, options.max_cases),
            train_pairs=min(statistics.pairs, options.max_cases or statistics.pairs),
        )
        manifest.write(data_dir)
    check_same_vocabularies(vocabularies, manifest, data_dir)
    for split in SPLITS[1:]:
        if not all((data_dir / problem.text_filename(split, side)).exists() for side in SIDES):
            first_pairs[split] = write_split_text(problem, split, files, data_dir)
            for note in equal_splits(first_pairs, split):
                say(f"{problem.data_name}: {note}")
    for split in SPLITS:
        total = manifest.train_pairs if split == "train" else None
        plan = make_plan(problem, split, total, vocabularies, manifest.sources, options.max_cases)
        held_out = held_out_sources(problem, split, data_dir)
        most = options.max_cases
        write_split(SplitJob(problem, plan, files, most, vocabularies, data_dir, manifest, say, total, held_out))
        _report(problem.data_name, split, manifest.splits[split], say)
    write_index(data_dir, manifest)
    return manifest


def _report(name: str, split: str, made: SplitEntry, say: Callable[[str], None]) -> None:
    examples, dropped = made["examples"], made.get("dropped", {})
    reasons = ", ".join(f"{count} ({reason})" for reason, count in dropped.items())
    say(f"{name}: {split}: {examples} pairs{f'; dropped: {reasons}' if reasons else ''}")
    for other, count in made.get("overlap", {}).items():
        say(f"{name}: {split}: the sources of {count} pairs are also in {other}")
    share = sum(dropped.values()) / (examples + sum(dropped.values()) or 1)
    if split != "train" and share > MANY_DROPPED:
        say(f"{name}: {split}: {share:.0%} of the pairs are dropped; check the files")
