"""Runs of a `ResumableWriter` that are stopped after some blocks, and what they leave."""

import itertools

from t2t_lite.bin.decoder.outputs import ResumableWriter

MADE_BY = {"model": "a", "beam": 4}
LINES = ["one", "", "drei ä", "one", "five \ud800", "6\r", "seven\u2028", "", "nine", "ten"]
BLOCK = 3
BLOCKS = 4  # the last of them is one line
OUTPUTS = (lambda line: f"{line.strip()}!", lambda line: " ".join(f"{i}-{i}" for i in range(len(line))))


def start(paths, lines=LINES, made_by=MADE_BY):
    """Returns the files, the lines that they do not answer yet, and what was said."""
    said = []
    files = ResumableWriter(paths, made_by)
    return files, files.rest_of(lambda: iter(lines), said.append), said


def answers_to(lines, how_many):
    return [[answer(line) for line in lines] for answer in OUTPUTS[:how_many]]


def work(paths, lines=LINES, blocks=None, made_by=MADE_BY):
    """Answers the lines; stops after so many blocks as a killed process does. Returns what was said."""
    files, rest, said = start(paths, lines, made_by)
    for _ in itertools.count() if blocks is None else range(blocks):
        block = list(itertools.islice(rest, BLOCK))
        if not block:
            break
        files.append(block, answers_to(block, len(paths)))
    if blocks is None:
        files.finish()
    return said


def text_of(lines, which=0):
    return "".join(OUTPUTS[which](line) + "\n" for line in lines).encode(errors="replace")


def undisturbed(folder, names, lines=LINES):
    """Returns the files' contents after a run without interruption."""
    (folder / "undisturbed").mkdir(exist_ok=True)
    paths = [folder / "undisturbed" / name for name in names]
    work(paths, lines)
    return [path.read_bytes() for path in paths]


def partial_of(path):
    return path.with_name(path.name + ".incomplete")


def progress_of(path):
    return path.with_name(path.name + ".progress")


def spoil(path):
    """Changes what a partial file holds but not its size: a run that goes on with it ends with other bytes."""
    partial = partial_of(path)
    partial.write_bytes(b"#" * partial.stat().st_size)


def names_in(directory):
    return sorted(path.name for path in directory.iterdir())
