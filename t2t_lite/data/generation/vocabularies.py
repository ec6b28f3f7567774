"""The vocabularies of a problem's data: learned from the corpus, or imported from --vocab_file."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from t2t_lite.data.generation.corpus_statistics import CorpusStatistics
from t2t_lite.data.generation.existing_data import vocabulary_settings
from t2t_lite.data.manifest import Manifest
from t2t_lite.data.problem import SIDES, Problem
from t2t_lite.data.vocab import Vocabulary, import_vocabulary, open_vocabulary, train_vocabulary
from t2t_lite.errors import UserError
from t2t_lite.files import file_sha256, partial_path, split_paths


def make_vocabularies(
    problem: Problem,
    statistics: CorpusStatistics,
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
                import_vocabulary(Path(name), Path(folder) / "vocabulary")
            except UserError as error:
                raise UserError(f"`vocab_file={problem.vocab_file}`: {error}") from error


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
