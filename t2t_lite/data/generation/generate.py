"""Data generation: text -> vocabularies, shuffled TFRecord shards of ids, dev and test as text, manifest."""

import contextlib
import dataclasses
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from t2t_lite.data.generation.corpus_statistics import BEGIN_PAIRS, Survey, survey
from t2t_lite.data.generation.progress import PairMeter
from t2t_lite.data.generation.records import SIDES
from t2t_lite.data.generation.shuffle import Plan
from t2t_lite.data.generation.sources import check_unchanged, digests_of, find_or_fetch
from t2t_lite.data.generation.split_writer import WORK, SplitJob, pairs_of, write_split
from t2t_lite.data.generation.text_checks import TextChecks
from t2t_lite.data.manifest import Manifest, check_data, read_manifest
from t2t_lite.data.problem import SPLITS, Example, Problem
from t2t_lite.data.vocab import Vocabulary, import_vocabulary, open_vocabulary, train_vocabulary
from t2t_lite.errors import UserError
from t2t_lite.files import INCOMPLETE, is_same_file, make_folder, partial_path, sha256_of, written_whole

# Records that are shuffled together in memory, on average, and pairs that are encoded together.
BUCKET_RECORDS = 2**16
CHUNK_PAIRS = 2**15
MANY_DROPPED = 0.1  # share of a dev or test split


@dataclasses.dataclass(frozen=True)
class GenerateOptions:
    """How data is made.

    Args:
      num_workers: chunks that are encoded side by side; 0: as many as there are cores.
      max_cases: so many pairs of the train split at most, the first ones; 0: all.
      runner: "" for this machine; otherwise the Apache Beam runner to use: "direct" or a name that Beam knows.
      beam_options: flags for Beam's pipeline, separated by blanks.
      report: takes what the look at own text has found.
    """

    num_workers: int = 0
    max_cases: int = 0
    runner: str = ""
    beam_options: str = ""
    report: Callable[[TextChecks], None] = lambda checks: None


def generate(
    problem: Problem,
    data_dir: Path,
    tmp_dir: Path,
    say: Callable[[str], None] = print,
    options: GenerateOptions = GenerateOptions(),
) -> Manifest:
    """Makes the data of a problem. What is already there and whole is kept, so an interrupted run goes on.

    Args:
      problem: what to generate; a reversed problem has the forward problem's data.
      data_dir: where to write.
      tmp_dir: where source files are, or are fetched to.
      say: takes lines about progress.
      options: how it is made; but for max_cases, they make no difference to what is made.

    Returns:
      the manifest.

    Raises:
      UserError: on missing, damaged or changed sources, or unusable data already in `data_dir`.
    """
    data_dir, tmp_dir = Path(data_dir), Path(tmp_dir)
    problem.keep_streams(tmp_dir)
    manifest = read_manifest(data_dir, problem)
    if manifest is not None:
        _check_settings(manifest, problem, options, data_dir)
        if all((data_dir / name).exists() for name in _all_files(manifest, problem)):
            _check_sources_in_place(manifest, tmp_dir, data_dir)
            _clear_away(problem, data_dir)
            check_data(data_dir, problem)
            say(f"{problem.data_name}: already in {data_dir}, nothing to do")
            return manifest
    files = find_or_fetch(problem, tmp_dir)
    if manifest is not None:
        check_unchanged(files, manifest.sources, data_dir)
    if options.runner:
        from t2t_lite.data.generation.beam import check_runner

        check_runner(options.runner, options.beam_options)
    is_new = not data_dir.exists()
    make_folder(data_dir, "--data_dir")
    try:
        _check_sources_are_elsewhere(problem, files, data_dir)
        begins: dict[str, list[Example]] = {}  # the first pairs of splits, as far as they are read in this run
        manifest, vocabularies = _begin(problem, files, data_dir, manifest, say, options, begins)
        for split in SPLITS:
            _make_split(problem, split, files, data_dir, manifest, vocabularies, say, options, begins)
    except UserError:
        if is_new:
            with contextlib.suppress(OSError):  # something was written
                data_dir.rmdir()
        raise
    _clear_away(problem, data_dir)
    return manifest


def _check_sources_are_elsewhere(problem: Problem, files: dict, data_dir: Path) -> None:
    """Refuses to write over what the data is made of."""
    names = [*problem.vocab_filenames, *(name for split in SPLITS for name in _text_names(problem, split))]
    names += [problem.shard_filename(split, shard) for split in SPLITS for shard in range(problem.shards_of(split))]
    sources = [*files.values(), *(Path(name) for name in problem.vocab_file.split(",") if name)]
    for path in sources:
        if any(is_same_file(data_dir / name, path) for name in names):
            raise UserError(f"{path} would be overwritten by the data that is made of it; use another --data_dir")


def _clear_away(problem: Problem, data_dir: Path) -> None:
    """Removes what runs that were killed have left."""
    for folder in data_dir.glob(f"{problem.data_name}-*{WORK}"):
        shutil.rmtree(folder)
    for start in (f"{problem.data_name}-", f"vocab.{problem.data_name}.", f"manifest.{problem.data_name}.json."):
        for file in data_dir.glob(f"{start}*{INCOMPLETE}"):
            file.unlink()


def _no_examples(problem: Problem, split: str) -> UserError:
    return UserError(
        f"problem '{problem.data_name}' has no {split} examples, and train, dev and test need some each; check its "
        f"sources and its examples(split, files)"
    )


def _begin(problem, files, data_dir, manifest, say, options, begins) -> tuple[Manifest, tuple[Vocabulary, Vocabulary]]:
    """Surveys the text and learns pieces, if that has not been done."""
    names = [each["file"] for each in manifest.vocabularies] if manifest else []
    if not names or not all((data_dir / name).exists() for name in names):
        seen = _look_through(problem, files, say, options)
        begins["train"] = seen.begin
        names = _make_vocabularies(problem, seen, data_dir, say, manifest)
    by_name = {name: open_vocabulary(data_dir / name) for name in dict.fromkeys(names)}
    vocabularies = tuple(by_name[name] for name in names)
    if manifest is None:
        manifest = _new_manifest(problem, vocabularies, files, seen, options)
        manifest.write(data_dir)
    for vocabulary, made_with in zip(vocabularies, manifest.vocabularies):
        if vocabulary.sha256 != made_with["sha256"]:
            raise UserError(
                f"{vocabulary.path} is not the vocabulary that the data in {data_dir} was made with "
                f"({made_with['file']}); put that one back, or use another --data_dir"
            )
    return manifest, vocabularies


def _look_through(problem: Problem, files: dict, say: Callable[[str], None], options: GenerateOptions) -> Survey:
    checks = None
    if problem.checks_text:
        checks = TextChecks({split: problem.examples(split, files) for split in problem.separate_splits()})
    meter = PairMeter(f"{problem.data_name}: counting", say)
    try:
        seen = survey(problem, problem.raw_pairs(files), checks, meter)
    except UserError:
        if checks is not None and checks.pairs:
            options.report(checks)  # it may tell why
        raise
    if not seen.pairs:
        raise _no_examples(problem, "train")
    if checks is not None:
        options.report(checks)
    for remark in problem.remarks(files):
        say(f"{problem.data_name}: {remark}")
    if not seen.sample:
        why = f": {checks.flaws()}" if checks is not None else ""
        raise UserError(
            f"problem '{problem.data_name}' has no usable train examples: all {seen.pairs} are dropped{why}"
        )
    return seen


def _equal_to(begins: dict[str, list[Example]], split: str) -> list[str]:
    """Returns remarks if a split begins as another one, as those of a problem do whose examples ignore the split."""
    return [
        f"{split} begins with the same {len(begins[split])} pairs as {other}: if they are all the same, its figures "
        f"mean nothing; give each split pairs of its own"
        for other in begins
        if other != split and begins[split] and begins[split] == begins[other]
    ]


def _make_vocabularies(
    problem: Problem, seen: Survey, data_dir: Path, say: Callable[[str], None], manifest: Manifest | None
) -> list[str]:
    """Makes the vocabulary of each side, or that of both, and returns their names: those of the manifest if any."""
    given = problem.vocab_file.split(",") if problem.vocab_file else []
    number = 1 if problem.shared_vocabulary else 2
    if given and len(given) != number:
        raise UserError(
            f"'{problem.data_name}' has {number} vocabularies, and --vocab_file={problem.vocab_file} names "
            f"{len(given)}; give one file for each, separated by a comma"
        )
    made_as: dict[Path, Path] = {}  # all are learned before one has its name: an interruption leaves none of some
    names = []
    for which, sides in enumerate([SIDES] if problem.shared_vocabulary else [[side] for side in SIDES]):
        made = partial_path(data_dir / f"vocab.{problem.data_name}")
        if given and given[which]:
            import_vocabulary(Path(given[which]), made)
        else:
            _learn(problem, sides, seen, made, say, _about_rare_characters(problem, manifest))
        size = open_vocabulary(made).size
        if size < problem.vocab_size and not problem.vocab_file and problem.kind_of(sides[0]) != "bytes":
            say(
                f"{problem.data_name}: learned {size:,} pieces, not {problem.vocab_size:,} (--vocab_size): the text "
                f"holds no more"
            )
        path = data_dir / (manifest.vocabularies[which]["file"] if manifest else problem.vocab_filename(sides[0], size))
        if path.exists() and sha256_of(path) != sha256_of(made):
            made.unlink()
            raise UserError(f"{path} is there, but was not made from this text; remove it, or use another --data_dir")
        made_as[made] = path
        names += [path.name] * len(sides)
    for made, path in made_as.items():
        made.replace(path)
    return names


def _learn(
    problem: Problem, sides: Sequence[str], seen: Survey, path: Path, say: Callable[[str], None], rare: dict
) -> None:
    kind = problem.kind_of(sides[0])
    if kind != "bytes":
        pieces = {"bpe": "byte-pair pieces", "wordpiece": "word-pieces"}.get(kind, kind)
        say(f"{problem.data_name}: learning {problem.vocab_size} {pieces} of {' and '.join(sides)}")
    train_vocabulary(seen.texts(sides), problem.vocab_size, path, kind, problem.symbols_of(sides[0]), **rare)


def _about_rare_characters(problem: Problem, manifest: Manifest | None) -> dict:
    """Returns what bpe does with them; with data from before it could be chosen, what was done then."""
    if manifest is None:
        return {"byte_fallback": problem.byte_fallback, "character_coverage": problem.character_coverage}
    before = {"byte_fallback": False, "character_coverage": 1.0} | manifest.settings
    return {name: before[name] for name in ("byte_fallback", "character_coverage")}


def _settings(problem: Problem, options: GenerateOptions) -> dict:
    """What decides about the records besides the sources and the vocabularies."""
    own = {name: getattr(problem, name) for name in ("vocab_kind", "vocab_size", "vocab_file", "num_shards")}
    return {**own, **_about_rare_characters(problem, None), "max_cases": options.max_cases, **problem.given}


def _check_settings(manifest: Manifest, problem: Problem, options: GenerateOptions, data_dir: Path) -> None:
    if not manifest.settings:
        return
    as_it_is = _about_rare_characters(problem, manifest)  # a vocabulary that is there is used
    made_with, asked = manifest.settings | as_it_is, _settings(problem, options) | as_it_is
    for name in sorted(made_with.keys() | asked.keys()):
        if made_with.get(name) != asked.get(name):
            then, now = (f"--{name}={each[name]}" if each.get(name) else f"no --{name}" for each in (made_with, asked))
            raise UserError(
                f"the data in {data_dir} was made with {then}, and now it is {now}; "
                f"use another --data_dir, or the flags that it was made with"
            )


def _check_sources_in_place(manifest: Manifest, tmp_dir: Path, data_dir: Path) -> None:
    """The sources of finished data need not be there any more, but those that are have to be the same."""
    found = {name: tmp_dir / name for name in manifest.sources if (tmp_dir / name).is_file()}
    check_unchanged(found, {name: manifest.sources[name] for name in found}, data_dir)


def _new_manifest(problem, vocabularies, files, seen: Survey, options) -> Manifest:
    inputs, targets = ({"file": each.path.name, "sha256": each.sha256, "size": each.size} for each in vocabularies)
    return Manifest(
        problem=problem.data_name,
        vocabulary=targets,
        splits={},
        sources=digests_of(files),
        inputs_vocabulary=None if problem.shared_vocabulary else inputs,
        settings=_settings(problem, options),
        train_pairs=min(seen.pairs, options.max_cases or seen.pairs),
    )


def _all_files(manifest: Manifest, problem: Problem) -> list[str]:
    names = [vocabulary["file"] for vocabulary in manifest.vocabularies]
    for split in SPLITS:
        if split not in manifest.splits:
            return [f"{problem.data_name}-{split}: not finished"]
        names += [*manifest.splits[split]["shards"], *_text_names(problem, split)]
    return names


def _text_names(problem: Problem, split: str) -> list[str]:
    """The files with a split's plain text, inputs and targets; the training text is not written again."""
    return [] if split == "train" else [problem.text_filename(split, side) for side in SIDES]


def _make_split(problem, split, files, data_dir, manifest, vocabularies, say, options, begins) -> None:
    total = manifest.train_pairs if split == "train" else None
    num_shards = problem.shards_of(split)
    plan = Plan(
        split,
        num_shards,
        buckets_per_shard=max(1, round((total or 0) / (num_shards * BUCKET_RECORDS))),
        chunk_pairs=CHUNK_PAIRS,
        made_of=" ".join([*(each.sha256 for each in vocabularies), *manifest.sources.values(), str(options.max_cases)]),
    )
    job = SplitJob(problem, plan, files, options.max_cases, vocabularies, data_dir, manifest, say, total)
    if not all((data_dir / name).exists() for name in _text_names(problem, split)):
        begins[split] = _write_text(problem, split, files, data_dir)
        for remark in _equal_to(begins, split):
            say(f"{problem.data_name}: {remark}")
    if options.runner:
        from t2t_lite.data.generation.beam import write_split_with_beam

        write_split_with_beam(job, options.runner, options.beam_options, options.num_workers)
    else:
        write_split(job, options.num_workers)
    made = manifest.splits[split]
    say(f"{problem.data_name}: {split}: {made['examples']} pairs{_told_drops(made)}")
    dropped = sum(made.get("dropped", {}).values())
    if split != "train" and dropped > MANY_DROPPED * (made["examples"] + dropped):
        share = dropped / (made["examples"] + dropped)
        say(f"{problem.data_name}: {split}: {share:.0%} of its pairs are left out; look at its files")


def _told_drops(made: dict) -> str:
    dropped = made.get("dropped", {})
    return "; left out: " + ", ".join(f"{count} ({why})" for why, count in dropped.items()) if dropped else ""


def _write_text(problem: Problem, split: str, files: dict, data_dir: Path) -> list[Example]:
    """Writes a split as text, a sentence a line in the order of the source, to decode and to score.

    Returns:
      its first pairs.
    """
    begin = []
    paths = [data_dir / name for name in _text_names(problem, split)]
    with contextlib.ExitStack() as stack:
        partial = [stack.enter_context(written_whole(path)) for path in paths]
        texts = [stack.enter_context(open(path, "w", encoding="utf-8", newline="")) for path in partial]
        for pair in pairs_of(problem, split, files, 0):
            if len(begin) < BEGIN_PAIRS:
                begin.append(pair)
            if problem.flaw(split, pair):
                continue
            if any("\n" in line for line in pair):
                raise UserError(f"problem '{problem.data_name}' has a {split} example with a line break; take it out")
            for text, line in zip(texts, pair):
                text.write(line + "\n")
    return begin
