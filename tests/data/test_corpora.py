"""Corpora at addresses: every format gives the same pairs, downloads survive breaks, and bad archives do no harm."""

import gzip
import http.server
import io
import json
import os
import random
import re
import subprocess
import sys
import tarfile
import threading
import tracemalloc
import zipfile

import pytest

from t2t_lite.data.generation.corpora import FILES, download, fetch_corpus, read_tmx
from t2t_lite.data.problem import Corpus
from t2t_lite.data.text_files import read_lines
from t2t_lite.errors import UserError

PAIRS = [("A man sleeps.", "Un homme dort."), ("Two dogs & <b>.", "Deux chiens & <b>."), ("No.", "Non.")]
LEFT, RIGHT = ("".join(f"{pair[side]}\n" for pair in PAIRS).encode() for side in (0, 1))


def escaped(text):
    return text.replace("&", "&amp;").replace("<", "&lt;")


def tmx(pairs=PAIRS, names=("EN-us", "fr")):
    units = "".join(
        f'<tu><tuv xml:lang="{names[1]}"><seg>{escaped(right)}</seg></tuv><tuv xml:lang="de"><seg>x</seg></tuv>'
        f'<tuv xml:lang="{names[0]}"><prop>y</prop><seg><hi>{escaped(left)}</hi></seg></tuv></tu>\n'
        for left, right in pairs
    )
    units += '<tu><tuv xml:lang="en"><seg>alone</seg></tuv></tu>'
    return f'<?xml version="1.0"?><tmx version="1.4"><header/><body>{units}</body></tmx>'.encode()


def zipped(files):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return content.getvalue()


def tarred(files):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, text in files.items():
            about = tarfile.TarInfo(name)
            about.size = len(text)
            archive.addfile(about, io.BytesIO(text))
    return content.getvalue()


TSV = "".join(f"{left}\t{right}\n" for left, right in PAIRS).encode()
MOSES = zipped({"README": b"x", "C.en-fr.ids": b"1", "C.en-fr.en": LEFT, "C.en-fr.fr": RIGHT})
FORMATS = {
    "x.zip": MOSES,
    "x.argosdata": zipped({"data/source": LEFT, "data/target": RIGHT, "data/metadata.json": b"{}"}),
    "z.zip": zipped({"C.en.gz": gzip.compress(LEFT), "C.fr.gz": gzip.compress(RIGHT)}),
    "a.tar.gz": tarred({"train.en": LEFT, "train.fr": RIGHT, "LICENSE": b"x"}),
    "x.tmx": tmx(),
    "x.tmx.gz": gzip.compress(tmx()),
    "X.TMX": tmx().decode().encode("utf-16"),
    "swapped.argosdata": zipped(
        {"d/source": RIGHT, "d/target": LEFT, "d/metadata.json": b'{"from_code": "fr", "to_code": "en"}'}
    ),
    "t.zip": zipped({"inside/x.tmx": tmx()}),
    "x.tsv": TSV,
    "x.tsv.gz": gzip.compress(TSV),
}


def texts(folder):
    return tuple("".join(f"{line}\n" for line in read_lines(folder / name)).encode() for name in FILES)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_texts(name, tmp_path):
    (tmp_path / name).write_bytes(FORMATS[name])
    corpus = Corpus(str(tmp_path / name), "en-fr")
    folder = fetch_corpus(corpus, tmp_path / "tmp")
    assert texts(folder) == (LEFT, RIGHT) and {path.name for path in folder.iterdir()} == {*FILES, "corpus.json"}
    before = (folder / FILES[0]).stat().st_mtime_ns
    assert fetch_corpus(corpus, tmp_path / "tmp") == folder and (folder / FILES[0]).stat().st_mtime_ns == before


def test_a_changed_file_is_read_again(tmp_path):
    file, corpus = tmp_path / "x.zip", Corpus(str(tmp_path / "x.zip"), "en-fr")
    for left, right in ((LEFT, RIGHT), (RIGHT, LEFT)):
        file.write_bytes(zipped({"a.en": left, "a.fr": right}))
        assert texts(fetch_corpus(corpus, tmp_path / "tmp")) == (left, right)


def test_a_folder_is_read_in_both_directions(tmp_path):
    (tmp_path / "c").mkdir()
    (tmp_path / "c/source.txt").write_bytes(LEFT)
    (tmp_path / "c/target.txt").write_bytes(RIGHT)
    assert texts(fetch_corpus(Corpus(str(tmp_path / "c")), tmp_path)) == (LEFT, RIGHT)
    (tmp_path / "x.tmx").write_bytes(tmx())
    assert texts(fetch_corpus(Corpus(str(tmp_path / "x.tmx"), "fr-en"), tmp_path)) == (RIGHT, LEFT)


def test_variants_and_markup_of_tmx_do_not_mix(tmp_path):
    def variant(language, text):
        return f'<tuv xml:lang="{language}"><seg>{text}</seg></tuv>'

    marked = 'the <bpt i="1">&lt;b&gt;</bpt>old<ept i="1">&lt;/b&gt;</ept> <hi>bus</hi> <ph>{0}</ph>comes'
    unit = f"<tu>{variant('pt-BR', 'onibus')}{variant('pt-PT', 'autocarro')}{variant('en', marked)}</tu>"
    (tmp_path / "x.tmx").write_text(f"<tmx><body>{unit}</body></tmx>")
    path = tmp_path / "x.tmx"
    assert [*read_tmx(path, "pt-BR:pt-PT")] == [("onibus", "autocarro")]
    assert [*read_tmx(path, "pt-PT:pt-BR")] == [("autocarro", "onibus")]
    assert [*read_tmx(path, "en-pt")] == [("the old bus comes", "onibus")]


def test_tmx_is_not_kept_in_memory(tmp_path):
    peaks = []
    for count in (2000, 8000):
        (tmp_path / "x.tmx").write_bytes(tmx([(f"A man {place}.", f"Un homme {place}.") for place in range(count)]))
        tracemalloc.start()
        assert sum(1 for _ in read_tmx(tmp_path / "x.tmx", "en-fr")) == count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0], peaks


SPOILT = bytearray(zipped({"a.en": random.Random(1).randbytes(9000), "a.fr": b"x"}))
SPOILT[2000:2100] = bytes(100)
BAD = {
    "slip.zip": (zipped({"../evil.en": b"x", "a.fr": b"x"}), "has a file outside of itself, ../evil.en"),
    "slip.tar.gz": (tarred({"/evil.en": b"x", "a.fr": b"x"}), "has a file outside of itself, /evil.en"),
    "bomb.zip": (zipped({"a.en": bytes(150 * 2**20), "a.fr": b"x"}), "text does not do that"),
    "cut.zip": (MOSES[:-30], "damaged"),
    "spoilt.zip": (SPOILT, "damaged"),
    "other.zip": (zipped({"a.en": LEFT, "a.de": RIGHT}), "has no pair of text files in en-fr; it has a.de, a.en"),
    "other.tmx": (tmx(names=("en", "es")), "has no units in en-fr; its languages are de, en, es"),
    "cut.tmx": (tmx()[:200], "is not a TMX file"),
    "odd.tmx": (b'<?xml version="1.0" encoding="gb2312"?>' + tmx()[21:], "is not a TMX file"),
    "plain.tsv": (LEFT, "has a tab"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_one_line_and_writes_nothing(name, tmp_path):
    content, message = BAD[name]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_bytes(content)
    with pytest.raises(UserError) as error:
        fetch_corpus(Corpus(str(tmp_path / "in" / name), "en-fr"), tmp_path / "tmp")
    assert message in str(error.value) and "\n" not in str(error.value)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [name]


class Server(http.server.BaseHTTPRequestHandler):
    """Serves `content`, in parts if asked; ends an answer after `most` bytes."""

    protocol_version = "HTTP/1.0"
    content, mark, most, asked = b"", '"1"', 10**9, []

    def do_GET(self):
        kind = type(self)
        kind.asked.append(self.headers.get("Range"))
        if self.path.startswith("/none"):
            self.send_error(404)
            return
        found = re.match(r"bytes=(\d+)-", self.headers.get("Range") or "")
        start = int(found[1]) if found and self.headers.get("If-Range") == kind.mark else 0
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(kind.content) - 1}/{len(kind.content)}")
        self.send_header("Content-Length", str(len(kind.content) - start))
        if kind.mark:
            self.send_header("ETag", kind.mark)
        self.end_headers()
        self.wfile.write(kind.content[start : start + kind.most])

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    kind = type("Own", (Server,), {"asked": []})
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    kind.address = f"http://127.0.0.1:{running.server_port}"
    yield kind
    running.shutdown()
    running.server_close()


def test_a_broken_download_goes_on_where_it_stopped(server, tmp_path):
    server.content, server.most = random.Random(1).randbytes(100_000), 40_000
    download(f"{server.address}/x.zip", tmp_path / "x.zip")  # three answers in one call
    assert (tmp_path / "x.zip").read_bytes() == server.content and server.asked[1:] == ["bytes=40000-", "bytes=80000-"]
    server.most = 10_000
    with pytest.raises(UserError, match="only 30,000 of 100,000 bytes came; run the same command again, which goes on"):
        download(f"{server.address}/y.zip", tmp_path / "y.zip")
    assert not (tmp_path / "y.zip").exists()
    server.most, server.mark = 10**9, '"2"'  # the file changed on the server: all of it again
    server.content = server.content[::-1]
    download(f"{server.address}/y.zip", tmp_path / "y.zip")
    assert (tmp_path / "y.zip").read_bytes() == server.content and server.asked[-1] == "bytes=30000-"
    server.most, server.mark = 60_000, ""  # a server that does not say whether the file is the same
    with pytest.raises(UserError, match="only 60,000 of 100,000"):
        download(f"{server.address}/z.zip", tmp_path / "z.zip")
    assert server.asked[-3:] == [None] * 3
    server.most = 10**9
    with pytest.raises(UserError, match="is not the published file"):
        download(f"{server.address}/z.zip", tmp_path / "z.zip", sha256="0" * 64)
    assert {path.name for path in tmp_path.iterdir()} == {"x.zip", "y.zip"}


def test_a_broken_answer_in_chunks_is_one_line(tmp_path):
    class Chunks(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"400\r\nshort")
            self.close_connection = True

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Chunks) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        with pytest.raises(UserError, match="run the same command again"):
            download(f"http://127.0.0.1:{running.server_port}/x.zip", tmp_path / "x.zip")
        running.shutdown()
    assert not (tmp_path / "x.zip").exists()


def test_an_unreachable_server_and_a_missing_file_are_one_line(server, tmp_path):
    with pytest.raises(UserError, match="404 Not Found; check the address"):
        download(f"{server.address}/none.zip", tmp_path / "x.zip")
    with pytest.raises(UserError, match=r"cannot download http://127.0.0.1:9/x.zip: .*refused; run the same command"):
        download("http://127.0.0.1:9/x.zip", tmp_path / "x.zip")
    assert not any(tmp_path.iterdir())


INDEX = """
import pickle, sys
from mtdata.index import Entry, Index
import mtdata
index = Index()
for did in ("OPUS-tatoeba-v20200101-eng-fra", "OPUS-tatoeba-v20230412-eng-fra", "Statmt-news-1-fra-eng"):
    index.add_entry(Entry(did, url=sys.argv[1] + f"/{did}.zip", ext="zip", in_ext="txt", in_paths=["*.en", "*.fr"]))
mtdata.cached_index_file.write_bytes(pickle.dumps(index))
"""


def test_a_corpus_of_the_index_is_found_and_downloaded(server, command, tmp_path):
    pytest.importorskip("mtdata")
    cache = tmp_path / "tmp/mtdata"
    cache.mkdir(parents=True)
    subprocess.run(
        [sys.executable, "-c", INDEX, server.address], env=os.environ | {"MTDATA": str(cache)}, check=True, cwd=cache
    )
    server.content = zipped({"C.en-fr.en": LEFT * 20, "C.en-fr.fr": RIGHT * 20})
    folder = fetch_corpus(Corpus("opus://Tatoeba", "en-fr"), tmp_path / "tmp")
    about = json.loads((folder / "corpus.json").read_text())
    assert about["url"].endswith("OPUS-tatoeba-v20230412-eng-fra.zip") and texts(folder) == (LEFT * 20, RIGHT * 20)
    folder = fetch_corpus(Corpus("opus://tatoeba/v2020-01-01", "fr-en"), tmp_path / "tmp")
    assert "v20200101" in (folder / "corpus.json").read_text() and texts(folder) == (RIGHT * 20, LEFT * 20)
    folder = fetch_corpus(Corpus("mtdata:Statmt-news-1-fra-eng", "fr-en"), tmp_path / "tmp")
    assert texts(folder)[0] == LEFT * 20  # the order of its entry: the first pattern is that of French
    for address, languages, message in (
        ("opus://Tatoba", "en-fr", "mtdata's index has no 'Tatoba' in en-fr; did you mean 'tatoeba'?"),
        ("opus://Tatoeba/v1", "en-fr", "mtdata's index has no 'Tatoeba/v1' in en-fr"),
        ("opus://Tatoeba", "en-sw", "mtdata's index has no 'Tatoeba' in en-sw"),
        ("mtdata:OPUS-x-1-eng-fra", "en-fr", "mtdata's index has no 'OPUS-x-1-eng-fra'"),
        ("opus://Tatoeba", "", "opus://Tatoeba needs --languages, such as en-fr"),
    ):
        flags = f"--train_corpus={address}", f"--data_dir={tmp_path}/data", f"--tmp_dir={tmp_path}/tmp"
        more = (f"--languages={languages}",) if languages else ()
        done = command("datagen", "--problem=text_pairs", *flags, *more)
        assert done.returncode == 1 and message in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    assert not (tmp_path / "data").exists()
