"""Makes the frozen runs of a version: python tests/frozen/freeze.py /data/frozen, then copy /data/frozen to <version>/.

Only for a new version that changes a format; what is there is never made again. Files remember the paths that they
were made of, so make them in a folder whose name says nothing of your machine.
"""

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

SIZES = "num_encoder_layers=1,num_decoder_layers=1,hidden_size=16,filter_size=24,num_heads=2,max_length=64"
# Without dropout, what a resumed training makes does not hang on which random numbers a version draws.
TRAINING = "residual_dropout=0,batch_tokens=200,learning_rate_warmup_steps=60"
NEWER = "norm_position=pre,norm_type=rms,position_encoding=rotary,feed_forward_type=swiglu,tied_embeddings=none"
OWN_TEXT = ["--problem=text_pairs", *(f"--{split}_tsv=text/{split}.tsv" for split in ("train", "dev", "test"))]
# name: (datagen's flags, the trainer's hparams, the decoder's hparams)
RUNS = {
    "tied": ([*OWN_TEXT, "--vocab_size=330"], "", ""),
    "untied": ([*OWN_TEXT, "--vocab_kind=wordpiece", "--vocab_size=330"], f"{NEWER},precision=mixed_bfloat16", ""),
    "characters": ([*OWN_TEXT, "--vocab_kind=characters", "--vocab_size=300"], "", "beam_size=1"),
    "bytes": ([*OWN_TEXT, "--vocab_kind=bytes"], "", "beam_size=1"),
    "words": ([*OWN_TEXT, "--vocab_kind=words", "--vocab_size=80"], "position_encoding=relative", ""),
    "parsing": (["--problem=treebank_parsing", "--treebank=text/trees.mrg"], "tied_embeddings=none", "beam_size=2"),
    "hard_alignment": (
        ["--problem=treebank_parsing", "--treebank=text/trees.mrg"],
        "tied_embeddings=none,hard_alignment_token=3",
        "beam_size=2,only_trees=True",
    ),
    "with_plugin": (["--problem=frozen_reading", "--t2t_usr_dir=plugin"], "tied_embeddings=decoder", ""),
}
PLUGIN = Path(__file__).resolve().parent / "0.1" / "plugin"
NOUNS = {"dog": "Hund", "man": "Mann", "garden": "Garten", "baker": "Bäcker", "tree": "Baum"}
VERBS = {"sees": "sieht", "hears": "hört", "knows": "kennt"}


def write_text(folder: Path) -> None:
    """Writes pairs of sentences and trees."""
    lots = random.Random(1)
    folder.mkdir()
    sentences, trees = [], []
    for first, subject in NOUNS.items():
        for verb, verb_de in VERBS.items():
            for second, thing in NOUNS.items():
                if first != second:
                    sentences.append(f"The {first} {verb} the {second}.\tDer {subject} {verb_de} den {thing}.\n")
                    noun_phrases = [f"(NP (DT the) (NN {noun}))" for noun in (first, second)]
                    trees.append(f"( (S {noun_phrases[0]} (VP (VBZ {verb}) {noun_phrases[1]}) (. .)))\n")
    lots.shuffle(sentences)
    for split, part in (("train", sentences[:48]), ("dev", sentences[48:54]), ("test", sentences[54:])):
        (folder / f"{split}.tsv").write_text("".join(part), encoding="utf-8")
    lots.shuffle(trees)
    (folder / "trees.mrg").write_text("".join(trees), encoding="utf-8")


def run(name: str, *flags: str, cwd: Path) -> str:
    """Runs a command and returns what it prints."""
    program = Path(sys.executable).with_name(f"t2t-lite-{name}")
    return subprocess.run([program, *flags], cwd=cwd, check=True, capture_output=True, text=True).stdout


def freeze(folder: Path, name: str) -> None:
    """Makes one data directory and one run directory, and what they give."""
    import numpy as np

    from t2t_lite.runs import checkpoints

    datagen, changes, search = RUNS[name]
    problem = datagen[0]
    plugin = [flag for flag in datagen if flag.startswith("--t2t_usr_dir")]
    here = folder / name
    run("datagen", *datagen, f"--data_dir={here / 'data'}", "--num_shards=1", cwd=folder)
    hparams = ",".join(filter(None, (SIZES, TRAINING, changes)))
    task = [problem, *plugin, f"--data_dir={here / 'data'}", f"--output_dir={here / 'run'}"]
    task += ["--hparams_set=transformer_tiny", f"--hparams={hparams}", "--save_checkpoints_steps=100"]
    run("trainer", *task, "--train_steps=300", "--keep_checkpoint_max=2", cwd=folder)
    shutil.rmtree(here / "run" / "train")
    shutil.rmtree(here / "run" / "eval")
    if name == "tied":
        run("avg", f"--output_dir={here / 'run'}", "--n=2", cwd=folder)
    else:  # one checkpoint is enough
        for path in (here / "run").glob("ckpt-200.*"):
            path.unlink()
    if name in ("tied", "untied"):
        copy = folder / "more"
        shutil.copytree(here / "run", copy)
        task[task.index(f"--output_dir={here / 'run'}")] = f"--output_dir={copy}"
        run("trainer", *task, "--train_steps=305", cwd=folder)
        arrays = checkpoints.read(copy / "ckpt-305", "model")
        np.savez_compressed(here / "after_5_more_steps.npz", **arrays)
        shutil.rmtree(copy)
    expect(here, search, plugin)


def expect(here: Path, search: str, plugin: list[str]) -> None:
    """Writes the inputs, and what the run makes of them."""
    texts = [path.read_text(encoding="utf-8") for path in sorted((here / "data").glob("*.inputs.txt"))]  # dev, test
    (here / "inputs.txt").write_text("".join(texts), encoding="utf-8")
    decode = [f"--output_dir={here / 'run'}", *plugin, f"--decode_from_file={here / 'inputs.txt'}"]
    settings = f"{search},return_beams=True".removeprefix(",")
    beams = run("decoder", *decode, f"--decode_hparams={settings}", cwd=here.parent)
    expected = {"decode_hparams": search, "best": [json.loads(line)[0] for line in beams.splitlines()]}
    expected["dev"] = json.loads((here / "run" / "evaluations.json").read_text())["300"]
    (here / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main(folder: Path) -> None:
    """Makes all of them in a folder that does not exist yet."""
    folder.mkdir(parents=True)
    write_text(folder / "text")
    shutil.copytree(PLUGIN, folder / "plugin", ignore=shutil.ignore_patterns("__pycache__"))
    for name in RUNS:
        freeze(folder, name)
        print(name, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
