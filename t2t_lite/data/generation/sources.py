"""Finds or downloads the sources of a problem, checks them, and reads data sets from tensorflow-datasets."""

import hashlib
import threading
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from t2t_lite.data.generation.corpora import download, fetch_corpus
from t2t_lite.data.problem import Corpus, Example, OwnFile, Problem, Source, TfdsSource
from t2t_lite.errors import UserError
from t2t_lite.files import file_sha256

SECONDS = 3.0  # timeout for name lookup and connection together
# Of data sets from tensorflow-datasets: their names of splits; how many pairs, and bytes, are read at once.
_SPLITS = {"train": "train", "dev": "validation", "test": "test"}
_READ_BATCH = 1000
_BUFFER_BYTES = 2**20


def find_or_fetch(problem: Problem, tmp_dir: Path) -> dict[str, Path]:
    """Returns the paths of a problem's sources by name. Existing files are used and never modified.

    Call `check_obtainable` first.
    """
    paths = {}
    for source in problem.sources:
        if isinstance(source, TfdsSource):
            paths |= _find_text_files(source, tmp_dir) or {source.name: _prepared(source, tmp_dir)}
        elif isinstance(source, OwnFile):
            paths[source.name] = source.path
        elif isinstance(source, Corpus):
            paths[source.name] = fetch_corpus(source, tmp_dir)
        else:
            paths[source.name] = path = tmp_dir / source.name
            if path.exists():
                _check_published(source, path)
            else:
                _fetch(source, path, problem)
    return paths


def check_obtainable(problem: Problem, tmp_dir: Path) -> None:
    """Raises UserError if flags are missing or a missing source cannot be downloaded. Takes a few seconds at most."""
    problem.check_options()
    for source in problem.sources:
        if isinstance(source, OwnFile) and source.path.is_dir():
            raise UserError(f"{source.path} is a directory; pass the files in it")
        if isinstance(source, OwnFile) and not source.path.is_file():
            raise UserError(f"no such file: {source.path}")
        if isinstance(source, Corpus) and source.is_local and not Path(source.address).exists():
            raise UserError(f"no such file or folder: {source.address}")
    if lacking := _lacking(problem, tmp_dir):
        for source in problem.sources:
            if isinstance(source, Source) and source not in lacking:
                _check_published(source, tmp_dir / source.name)
    for host in dict.fromkeys(urllib.parse.urlsplit(source.url)[:2] for source in lacking):
        if host[1] and (reason := why_unreachable(urllib.parse.urlunsplit((*host, "", "", "")))):
            raise UserError(
                f"cannot reach {host[1]} to fetch the sources of '{problem.data_name}' ({reason}); "
                f"{_by_hand(lacking, tmp_dir)}"
            )


def _lacking(problem: Problem, tmp_dir: Path) -> list[Source | TfdsSource]:
    return [
        source
        for source in problem.sources
        if (isinstance(source, Source) and not (tmp_dir / source.name).exists())
        or (
            isinstance(source, TfdsSource)
            and not (_find_text_files(source, tmp_dir) or prepared_folder(source, tmp_dir))
        )
    ]


def _by_hand(lacking: Sequence[Source | TfdsSource], tmp_dir: Path) -> str:
    places = []
    if files := [source for source in lacking if isinstance(source, Source)]:
        folders = dict.fromkeys(source.url.rpartition("/")[0] + "/" for source in files)
        places.append(f"{', '.join(source.name for source in files)} (from {' and '.join(folders)})")
    for source in lacking:
        if isinstance(source, TfdsSource):
            texts = f"{', '.join(source.placed)} (plain or with .gz), or " if source.placed else ""
            places.append(f"{texts}a folder {source.name} that tensorflow-datasets has prepared")
    return f"place by hand in {tmp_dir.absolute()} (`tmp_dir`): {'; and '.join(places)}"


def source_digests(files: Mapping[str, Path]) -> dict[str, str]:
    """Returns the SHA-256 of each source by name; for a folder, the SHA-256 of its files' names and checksums."""
    digests = {}
    for name, path in files.items():
        if path.is_dir():
            inside = sorted(str(each.relative_to(path)) for each in path.rglob("*") if each.is_file())
            listing = "".join(f"{file_sha256(path / each)}  {each}\n" for each in inside)
            digests[name] = hashlib.sha256(listing.encode()).hexdigest()
        else:
            digests[name] = file_sha256(path)
    return digests


def check_unchanged(files: Mapping[str, Path], recorded: Mapping[str, str], data_dir: Path) -> None:
    digests = source_digests(files)
    for name in sorted(digests.keys() | recorded.keys()):
        if name not in digests or name not in recorded:
            state = "was not" if name not in recorded else "was"
            raise UserError(
                f"unlike this run, the data in {data_dir} {state} made from {name}; "
                f"use another `data_dir`, or remove that data"
            )
        if digests[name] != recorded[name]:
            raise UserError(
                f"{files[name]} is not the source that the data in {data_dir} was made from (its SHA-256 differs: "
                f"it was changed or truncated); restore the original, or use another `data_dir`"
            )


def _find_text_files(source: TfdsSource, tmp_dir: Path) -> dict[str, Path]:
    """Returns the text files that replace a data set: all of them, or {}."""
    files = {}
    for name in source.placed:
        for path in (tmp_dir / name, tmp_dir / f"{name}.gz"):
            if path.exists():
                files[name] = path
    if missing := [name for name in source.placed if name not in files and files]:
        raise UserError(
            f"{tmp_dir} contains {next(iter(files.values())).name} but not {', '.join(missing)} (plain or with .gz); "
            f"add the missing files"
        )
    return files


def prepared_folder(source: TfdsSource, tmp_dir: Path) -> Path | None:
    """Returns the folder of the newest version of a data set that is prepared in `tmp_dir`, or None."""
    prepared = [path.parent for path in (tmp_dir / source.name).glob("*/dataset_info.json")]
    prepared = [path for path in prepared if "incomplete" not in path.name]  # unfinished folders of tensorflow-datasets
    return max(prepared, key=lambda path: [int(part) for part in path.name.split(".") if part.isdigit()], default=None)


def _prepared(source: TfdsSource, tmp_dir: Path) -> Path:
    if folder := prepared_folder(source, tmp_dir):
        return folder
    import tensorflow_datasets  # imported only if the data set is missing

    try:
        builder = tensorflow_datasets.builder(source.name, data_dir=tmp_dir)
        builder.download_and_prepare()
        return Path(builder.data_dir)
    except Exception as error:  # network, checksum, permission and parsing errors have the same remedy
        why = (str(error).strip() or type(error).__name__).split("\n")[0]
        raise UserError(f"cannot download {source.name} to {tmp_dir} ({why}); {_by_hand([source], tmp_dir)}") from error


def read_pairs(folder: Path, split: str, inputs: str, targets: str) -> Iterator[Example]:
    """Yields the pairs in a prepared data set, in file order. `folder` contains one version of it.

    `inputs` and `targets` are the feature names of the two sides: "en", "de".
    """
    import tensorflow as tf
    import tensorflow_datasets

    builder: Any = tensorflow_datasets.builder_from_directory(folder)
    if _SPLITS[split] not in builder.info.splits:
        raise UserError(f"the data set in {folder} has no {_SPLITS[split]} split")
    if missing := {inputs, targets} - set(builder.info.features):
        raise UserError(f"the data set in {folder} has no feature '{sorted(missing)[0]}'")
    stored = builder.info.features.get_serialized_info()
    are_texts = all(stored[name].tf_dtype == tf.string and stored[name].shape == () for name in (inputs, targets))
    if are_texts and builder.info.file_format.value == "tfrecord":
        # The library parses each pair by itself, which takes 30 times as long.
        features = {name: tf.io.FixedLenFeature([], tf.string) for name in (inputs, targets)}
        files = [str(path) for path in builder.info.splits[_SPLITS[split]].filepaths]
        records = tf.data.TFRecordDataset(files, buffer_size=_BUFFER_BYTES).batch(_READ_BATCH)
        pairs = records.map(lambda batch: tf.io.parse_example(batch, features)).prefetch(2)
    else:
        in_order = tensorflow_datasets.ReadConfig(interleave_cycle_length=1)
        pairs = builder.as_dataset(split=_SPLITS[split], shuffle_files=False, read_config=in_order).batch(_READ_BATCH)
    try:
        for batch in pairs.as_numpy_iterator():
            for left, right in zip(batch[inputs].tolist(), batch[targets].tolist()):
                yield Example(left.decode("utf-8", errors="replace"), right.decode("utf-8", errors="replace"))
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError, tf.errors.NotFoundError) as error:
        raise UserError(
            f"the data set in {folder} is damaged ({error.message.splitlines()[0]}); prepare it again"
        ) from error


def _check_published(source: Source, path: Path) -> None:
    if file_sha256(path) != source.sha256:
        raise UserError(
            f"{path} is not the published {source.name} (its SHA-256 differs); remove it to download it again"
        )


def _fetch(source: Source, path: Path, problem: Problem) -> None:
    try:
        download(source.url, path, source.sha256)
    except (OSError, UserError) as error:
        reason = str(error).removeprefix(f"cannot download {source.url}: ").partition("; ")[0]
        raise UserError(
            f"cannot fetch {source.name} from {source.url} to {path.parent} ({reason}); "
            f"{_by_hand(_lacking(problem, path.parent), path.parent)}"
        ) from error


def why_unreachable(url: str, seconds: float = SECONDS) -> str:
    """Returns "" if a URL's server, or the proxy configured for it, accepts a connection; else the reason."""
    import socket  # 7 ms for these two, which listings and --help do not need
    from urllib.request import getproxies, proxy_bypass

    asked = urllib.parse.urlsplit(url)
    proxies = getproxies()
    proxy = proxies.get(asked.scheme) or proxies.get("all")
    via = ""
    if proxy and not proxy_bypass(asked.netloc):
        asked = urllib.parse.urlsplit(proxy if "//" in proxy else f"//{proxy}")
        via = f"the proxy {asked.netloc}: "
    try:
        address = asked.hostname, asked.port or {"https": 443}.get(asked.scheme, 80)
    except ValueError as error:
        return f"{via}{error}"
    failure: list[str] = [f"no answer within {seconds:g} s"]

    def connect() -> None:
        try:
            socket.create_connection(address, timeout=seconds).close()
            failure[0] = ""
        except (OSError, UnicodeError) as error:
            failure[0] = getattr(error, "strerror", None) or str(error)

    # Uses a separate thread, because name lookup has no timeout.
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(seconds)
    return failure[0] and via + failure[0]
