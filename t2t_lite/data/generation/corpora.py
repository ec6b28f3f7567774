"""Parallel corpora by their addresses: finds them, downloads them, and writes one sentence per line into two files.

An address is the path of a file or folder, or http(s)://, or opus://CORPUS[/VERSION], or mtdata:ID. The last two are
looked up in the index of mtdata, which also lists OPUS. What is read: TSV, TMX, a folder or archive with two text files
(Moses' name.en and name.de, or source.txt and target.txt as in .argosdata), or an archive with one TSV or TMX.
"""

import contextlib
import fnmatch
import functools
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from t2t_lite.data.problem import Corpus, Example, Unusable, language_pair
from t2t_lite.data.text_files import open_bytes, read_tsv
from t2t_lite.errors import UserError, nearest
from t2t_lite.files import INCOMPLETE, file_sha256, make_folder, one_line, write_text, written_folder
from t2t_lite.system.installed import check_installed

FILES = ("source.txt", "target.txt")
ABOUT = "corpus.json"  # beside them: where they come from
_MARKUP = ("bpt", "ept", "it", "ph", "ut")  # elements of TMX that contain markup of other formats
_SECONDS, _TRIES, _CHUNK = 30.0, 3, 2**20
# No text compresses that well, but files that are made to fill the disk do.
_MAX_RATIO, _MAX_BYTES = 200, 100 * 2**20
# Runs in a process of its own, because mtdata adds handlers to the root logger and imports files of its folder.
_ASK = """
import json, re, sys
from mtdata.index import get_entries
from mtdata.iso.bcp47 import BCP47Tag, bcp47
asked, found = tuple(map(bcp47, sys.argv[1:3])), []
for each in get_entries(langs=asked):
    swapped = BCP47Tag.check_compat_swap(pair1=asked, pair2=each.did.langs)[1]
    found.append({"id": str(each.did), "group": each.did.group, "name": each.did.name, "version": each.did.version,
        "url": each.url, "inside": list(each.in_paths or ()), "columns": each.cols, "swapped": bool(swapped)})
print("\\x1e" + json.dumps(found))
"""


def fetch_corpus(corpus: Corpus, tmp_dir: Path) -> Path:
    """Returns a folder in `tmp_dir` with the `FILES` of a corpus. Downloads and unpacks it, unless that was done.

    Raises UserError if the corpus is unknown, cannot be downloaded, or has no text in its languages.
    """
    folder, about = tmp_dir / corpus.name, {"address": corpus.address, "languages": corpus.languages}
    if corpus.is_local:
        path, found = Path(corpus.address), dict[str, Any]()
        if path.is_file():
            about["sha256"] = file_sha256(path)
    if (folder / ABOUT).exists():
        known = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        if all(known.get(name) == value for name, value in about.items()) and not Path(corpus.address).is_dir():
            return folder
    if not corpus.is_local:
        make_folder(tmp_dir, "`tmp_dir`")
        is_url = corpus.address.startswith("http")
        found = {"url": corpus.address} if is_url else _look_up(corpus, tmp_dir / "mtdata")
        path = tmp_dir / f"{corpus.name}{_ending(found['url'])}"
        if not path.exists():
            download(found["url"], path)
        about |= {"url": found["url"], "sha256": file_sha256(path)}
    with written_folder(folder, "`tmp_dir`") as partial:
        _write_texts(path, corpus, found, partial)
        write_text(partial / ABOUT, json.dumps(about, indent=2) + "\n")
    return folder


def _ending(url: str) -> str:
    name = PurePosixPath(urllib.request.url2pathname(re.sub("[?#].*", "", url))).name.lower()
    return re.search(r"((\.tar)?\.[A-Za-z0-9]+(\.(gz|xz|bz2))?)?$", name)[0]  # pyright: ignore[reportOptionalSubscript]


def _look_up(corpus: Corpus, cache: Path) -> dict[str, Any]:
    """Returns the entry of mtdata's index for opus:// or mtdata:."""
    check_installed(corpus.address, {"mtdata": "mtdata"}, "corpora")
    if not corpus.languages:
        raise UserError(f"{corpus.address} needs `languages`, such as en-fr")
    make_folder(cache, "`tmp_dir`")
    pair = language_pair(corpus.languages)
    command = [sys.executable, "-c", _ASK, *pair]
    environment = os.environ | {"MTDATA": str(cache.absolute()), "MTDATA_RECIPES": str(cache.absolute())}
    done = subprocess.run(command, cwd=cache, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise UserError(f"{corpus.address}: mtdata fails: {(done.stderr.strip() or 'no message').splitlines()[-1]}")
    entries = json.loads(done.stdout.rpartition("\x1e")[2])
    kind, _, name = corpus.address.partition(":")
    if kind == "mtdata":
        found, known = [each for each in entries if each["id"] == name], [each["id"] for each in entries]
    else:
        name, _, version = name.strip("/").partition("/")
        of_opus = [each for each in entries if each["group"] == "OPUS"]
        found = [e for e in of_opus if _bare(e["name"]) == _bare(name) and _bare(version) in ("", _bare(e["version"]))]
        known = [f"{each['name']}/{each['version']}" if version else each["name"] for each in of_opus]
        name = f"{name}/{version}" if version else name
    if not found:
        missing = f"mtdata's index has no '{name}' in {corpus.languages}"
        raise UserError(f"{corpus.address}: {missing}{nearest(name, {*known})}")
    return max(found, key=lambda each: int("0" + "".join(re.findall(r"\d", each["version"]))))


def _bare(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.lower())


def download(url: str, path: Path, sha256: str = "") -> None:
    """Downloads a file beside its place, and moves it there once it is whole.

    What another call left is continued, if the server allows that and says that the file is the same.

    Args:
      url: http:// or https://.
      path: the new file.
      sha256: its checksum; "": unknown.

    Raises:
      UserError: if the server cannot be reached or has no such file, or the file is not whole, or another one.
    """
    part, mark = path.with_name(f"{path.name}.{INCOMPLETE}"), path.with_name(f"{path.name}.{INCOMPLETE}.mark")
    make_folder(path.parent, "`tmp_dir`")
    for left in reversed(range(_TRIES)):
        start = part.stat().st_size if part.exists() and mark.exists() else 0
        request = urllib.request.Request(url, headers={"User-Agent": "t2t-lite"})
        if start:
            request.add_header("Range", f"bytes={start}-")
            request.add_header("If-Range", mark.read_text(encoding="utf-8"))
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
                start = start if answer.status == 206 else 0  # else the whole file, perhaps because it is another one
                seen = answer.headers.get("ETag") or answer.headers.get("Last-Modified") or ""
                mark.write_text(seen, encoding="utf-8") if seen and not seen.startswith("W/") else mark.unlink(True)
                with open(part, "ab" if start else "wb") as file:
                    shutil.copyfileobj(answer, file, _CHUNK)
                length, size = answer.headers.get("Content-Length"), part.stat().st_size
            if length is None or size - start == int(length):
                break
            why = f"only {size:,} of {start + int(length):,} bytes came"
        except urllib.error.HTTPError as error:
            why = f"{error.code} {error.reason}"
            if error.code == 416:  # there is no such range: the file has become shorter
                part.unlink(missing_ok=True)
            elif error.code < 500:
                raise UserError(f"cannot download {url}: {why}; check the address") from error
        except (OSError, ValueError, http.client.HTTPException) as error:
            cause = getattr(error, "reason", error)
            why = str(getattr(cause, "strerror", None) or cause or type(cause).__name__)
        if not left:
            raise UserError(f"cannot download {url}: {why}; run the same command again, which goes on, or place the "
                            f"file by hand as {path}")  # fmt: skip
        time.sleep(0.5)
    mark.unlink(missing_ok=True)
    if sha256 and file_sha256(part) != sha256:
        part.unlink()
        raise UserError(f"cannot download {url}: it is not the published file (its SHA-256 differs)")
    os.replace(part, path)


def _write_texts(path: Path, corpus: Corpus, found: dict[str, Any], folder: Path) -> None:
    """Writes the `FILES` of a corpus, which was found at a path, into a folder."""
    kind, columns = _ending(path.name), found.get("columns")
    is_swapped, unpacked = found.get("swapped", False), folder / "unpacked"
    if path.is_dir() or kind.endswith((".zip", ".argosdata", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2")):
        patterns = found.get("inside") or ()
        with _archive(path) as members:
            about = [name for name in members if PurePosixPath(name).name == "metadata.json"]  # of .argosdata
            codes = json.load(members[about[0]]()) if about and corpus.languages and not patterns else {}
            first = str(codes.get("from_code")).replace("pb", "pt").replace("zt", "zh")  # Argos' own codes
            is_swapped = is_swapped or first == language_pair(corpus.languages or "xx-xx")[1].partition("-")[0]
            names = _chosen([*members], patterns, corpus, is_swapped)
            for name, target in zip(names, FILES if len(names) > 1 else [f"unpacked{_ending(names[0])}"]):
                with members[name]() as content, open(folder / target, "wb") as file:
                    shutil.copyfileobj(content, file, _CHUNK)
        if len(names) > 1:
            return
        path = unpacked = folder / f"unpacked{_ending(names[0])}"
        kind = _ending(path.name)
    pairs = read_tmx(path, corpus.languages) if ".tmx" in kind else read_tsv(path, columns or (0, 1))
    left, right = (folder / name for name in (FILES[::-1] if is_swapped and ".tmx" not in kind else FILES))
    with open(left, "w", encoding="utf-8") as sources, open(right, "w", encoding="utf-8") as targets:
        for pair in pairs:
            for text, file in zip(pair, (sources, targets)):
                file.write(f"{'' if isinstance(text, Unusable) else one_line(text)}\n")
    unpacked.unlink(missing_ok=True)


@contextlib.contextmanager
def _archive(path: Path) -> Iterator[dict[str, Callable[[], Any]]]:
    """Yields the files in a folder or archive by name, each as a function that opens it. Refuses harmful archives."""
    try:
        with contextlib.ExitStack() as stack:
            if path.is_dir():
                files = sorted(each for each in path.iterdir() if each.is_file())
                yield {each.name: functools.partial(each.open, "rb") for each in files}
            elif zipfile.is_zipfile(path):
                packed = stack.enter_context(zipfile.ZipFile(path))
                inside = [each for each in packed.infolist() if not each.is_dir()]
                _check_archive(path, [(each.filename, each.file_size) for each in inside])
                yield {each.filename: functools.partial(packed.open, each) for each in inside}
            else:
                tar = stack.enter_context(tarfile.open(path))
                members = [each for each in tar.getmembers() if each.isfile()]
                _check_archive(path, [(each.name, each.size) for each in members])
                yield {each.name: functools.partial(tar.extractfile, each) for each in members}
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, RuntimeError, zlib.error) as error:
        why = one_line(str(error))[:80]
        raise UserError(f"{path} is a damaged or encrypted archive ({why}); download it again") from error


def _check_archive(path: Path, members: Sequence[tuple[str, int]]) -> None:
    for name, _ in members:
        if name.startswith(("/", "\\")) or ".." in re.split(r"[/\\]", name):
            raise UserError(f"{path} has a file outside of itself, {name}; do not use it")
    total, packed = sum(size for _, size in members), path.stat().st_size
    if total > max(_MAX_BYTES, _MAX_RATIO * packed):
        raise UserError(f"{path} has {packed:,} bytes, but unpacks to {total:,}; text does not do that: do not use it")


def _chosen(names: Sequence[str], patterns: Sequence[str], corpus: Corpus, is_swapped: bool) -> list[str]:
    """Returns the names of the two text files in an archive, or of its only TSV or TMX."""
    if patterns:
        found = [fnmatch.filter(names, each) or fnmatch.filter(names, f"*/{each}") for each in patterns]
        if all(len(each) == 1 for each in found):
            return [name for (name,) in (found[::-1] if is_swapped else found)]
    sides = language_pair(corpus.languages) if corpus.languages else ("", "")
    endings = [rf"[._-]{re.escape(side)}(\.txt)?(\.(gz|xz|bz2))?$" if side else "^$" for side in sides]
    plain = [rf"(^|/){side}(\.txt)?(\.(gz|xz|bz2))?$" for side in ("source", "target")]
    for of_sides in (endings, plain[::-1] if is_swapped else plain):
        left, right = ([name for name in names if re.search(each, name)] for each in of_sides)
        if len(left) == len(right) == 1:
            return [*left, *right]
    tables = [name for name in names if re.search(r"\.(tsv|tmx)(\.(gz|xz|bz2))?$", name.lower())]
    if len(tables) == 1:
        return tables
    languages = corpus.languages or "languages, which `languages` names"
    raise UserError(f"{corpus.address} has no pair of text files in {languages}; it has {', '.join(sorted(names)[:6])}")


def read_tmx(path: Path, languages: str) -> Iterator[Example]:
    """Yields the pairs in a TMX file, plain or compressed, without reading it whole.

    Of a unit with several translations of a side, the first one is used. A language matches if its main part does,
    unless both sides have the same one, as pt-BR and pt-PT. Markup of other formats inside a segment is left out.
    """
    if not languages:
        raise UserError(f"{path} is a TMX file, which needs `languages`, such as en-fr")
    from xml.etree import ElementTree

    sides, seen, count, body = [side.lower() for side in language_pair(languages)], set[str](), 0, None
    parts = 1 if sides[0].partition("-")[0] != sides[1].partition("-")[0] else None  # of a code, which are compared
    sides = ["-".join(side.split("-")[:parts]) for side in sides]
    try:
        with open_bytes(path, is_text=False) as file:
            for event, unit in ElementTree.iterparse(file, ("start", "end")):
                body = unit if event == "start" and unit.tag.endswith("body") else body
                if event != "end" or unit.tag.rpartition("}")[2] != "tu":
                    continue
                texts = _translations(unit, parts)
                seen |= texts.keys()
                if all(texts.get(side) for side in sides):
                    count += 1
                    yield Example(*(texts[side] for side in sides))
                if body is not None:
                    body.clear()  # else all units stay in memory
    except (ElementTree.ParseError, ValueError, LookupError) as error:  # also of encodings
        raise UserError(f"{path} is not a TMX file: {error}; download or write it again") from error
    if not count:
        raise UserError(f"{path} has no units in {languages}; its languages are {', '.join(sorted(seen)) or 'none'}")


def _translations(unit: Any, parts: int | None) -> dict[str, str]:  # noqa: ANN401  an element
    """Returns the first text of each language in a unit; of its code, only the first `parts` count."""
    for markup in (each for each in unit.iter() if each.tag.rpartition("}")[2] in _MARKUP):
        markup.text = ""
    texts: dict[str, str] = {}
    for variant in unit.findall("{*}tuv"):
        code = next((text.lower() for name, text in variant.attrib.items() if name.endswith("lang")), "")
        segments = ("".join(segment.itertext()) for segment in variant.findall("{*}seg"))
        texts.setdefault("-".join(re.split("[-_]", code)[:parts]), " ".join(next(segments, "").split()))
    return texts
