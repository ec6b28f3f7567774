"""How tests/integration/test_docs_blocks.py runs blocks of the pages: what it changes, and what they must do."""

from typing import NamedTuple

TINY = "hidden_size=32,filter_size=64,num_heads=2,num_encoder_layers=1,num_decoder_layers=1,max_length=64"
FEW = "t2t-lite-trainer --train_steps=2 --schedule=train --peak_tflops=1 "
# A small model and two steps, for commands without and with settings of their own.
TRAIN = {"t2t-lite-trainer ": f"{FEW}--hparams={TINY},batch_tokens=512 "}
EVALUATED = {key: value.replace("--schedule=train ", "") for key, value in TRAIN.items()}
TRAIN_WITH = {"t2t-lite-trainer ": FEW, "--hparams=": f"--hparams={TINY},"}
# The only checkpoint.
AVERAGE = {"t2t-lite-avg ": "t2t-lite-avg --n=1 "}
CAPTIONS = "cp -r {multi30k_data}/. data"
SAVED = "t2t-lite-export --output_dir=RUN --export_dir=saved --format=saved_model --decode_hparams=beam_size=2"
EXPORTED = "cp -r {served_exports}/new model"
DECODE = "t2t-lite-decoder --export_dir=model --decode_from_file=news.txt.I --decode_to_file=news.de."


def its_own_steps(changes: dict[str, str]) -> dict[str, str]:
    """Returns changes that leave a command its --train_steps."""
    return {key: value.replace("--train_steps=2 ", "") for key, value in changes.items()}


class Run(NamedTuple):
    """A block that this file runs, in the folder of the page's blocks before it.

    start: how the block begins. changes: what is replaced; each must occur, braces name fixtures. writes: the files
    that must be there then. prints: patterns of what it must print. before: commands that make what the page takes as
    given. not_run: starts of commands that are only parsed, with the reason. status: of each command. needs: fixtures.
    """

    start: str
    changes: dict[str, str] = {}
    writes: tuple[str, ...] = ()
    prints: tuple[str, ...] = ()
    before: str = ""
    not_run: dict[str, str] = {}
    status: int = 0
    needs: tuple[str, ...] = ()


RUNS = {
    "README.md": [
        Run("t2t-lite-trainer", TRAIN, ("run/ckpt-2.index",), before="cp -r {grammar_data} data"),
        Run(
            "import datetime",
            {"8_000": "300", "train_steps=400": "train_steps=2", '"data"': '"dates"', '"run"': '"datesrun"'},
            ("datesrun/ckpt-2.index",),
            ("BLEU",),
        ),
    ],
    "docs/attention.md": [
        Run("echo", {}, ("attention.html", "reproduced/figure3.svg"), ("attention heads of",)),
        Run("picture", {"picture =": "import t2t_lite as t2t\npicture ="}, ("attention.svg",)),
    ],
    "docs/benchmarks.md": [
        Run(
            "t2t-lite-params",
            {},
            ("sets.png", "curve.png"),
            ("transformer_big_enfr", "utilisation"),
            not_run={
                f"t2t-lite-benchmark --{name}": f"takes minutes; {file} runs it with smaller sizes"
                for name, file in {
                    "layers": "tests/integration/test_benchmark_layers.py",
                    "training": "tests/integration/test_benchmark_training.py",
                    "decoding": "tests/integration/test_benchmark_decoding.py",
                }.items()
            },
        ),
    ],
    "docs/choosing.md": [Run("t2t-lite-benchmark --cost", prints=(r"0\.[67]\d to 1\.[01]\d h",))],
    "docs/coming-from.md": [
        Run(
            "t2t-lite-trainer",
            TRAIN | {"--n=5": "--n=1"},
            ("run/average-2.index", "out.txt"),
            ("BLEU.* = ",),
        ),
    ],
    "docs/data.md": [
        Run("t2t-lite-datagen --problem=text_pairs", {}, ("data/manifest.*",)),
        Run(
            "t2t-lite-datagen --inspect",
            {"wmt_ende": "grammar_ende", "=data": "={grammar_data}", "of-00100": "of-00010"},
            prints=("side  ",),
        ),
    ],
    "docs/decoding.md": [
        Run("t2t-lite-avg", {"t2t-lite-avg ": "t2t-lite-avg --n=3 "}, ("out.txt", "RUN/average-6.index")),
        Run("t2t-lite-decoder --export_dir=model --runner", {}, ("news.de/a.txt.gz", "news.de/b.txt.gz"), (), EXPORTED),
        Run(
            "split",
            {f"{DECODE}I\n": "".join(f"{DECODE}{part}\n".replace("txt.I", f"txt.{part}") for part in range(4))},
            (),
            (" 5 .* news.txt\n *5 .* news.de\n",),
            "rm -r news.de",
        ),
        Run("t2t-lite-decoder --output_dir=RUN --decode_from_file=in.txt --constraint", {}, ("out.txt",)),
        Run("t2t-lite-score", {}, (), ("p-value", "(?s)lines that changed most.*(line .*){5}")),
    ],
    "docs/evaluation.md": [
        Run(
            "t2t-lite-eval",
            {"=alpha,beam_size": "=alpha=0.6/1.0,beam_size=1/2"},
            ("RUN/scores/test.*/scores.json",),
            ("perplexity per word", "p, bootstrap"),
        ),
    ],
    "docs/export.md": [
        Run("t2t-lite-export", {}, ("model/README.md", "out.txt")),
        Run("import tensorflow", {'"model"': '"saved"'}, (), (r" -\d",), SAVED),
    ],
    "docs/from-tensor2tensor.md": [
        Run("t2t-lite-trainer --worker", {}, status=2),  # what it prints is the next block
        Run(
            "t2t-lite-datagen --problem=wmt",
            TRAIN | {"wmt_ende": "grammar_ende", "--n=5": "--n=1", "saved_model": "ctranslate2"},
            ("out.txt", "exported/README.md"),
            ("BLEU.* = ", "ready after"),
            "cp -r {grammar_data} data",
        ),
    ],
    "docs/mixtures.md": [
        Run("# adapt.toml"),
        Run(
            "t2t-lite-datagen --problem=text_mixture --mixture=adapt",
            {"t2t-lite-trainer ": FEW, "--train_steps=200 ": "", "=run ": "=RUN "},
            ("run2/ckpt-2.index", "adapted/vocab.*"),
            ("old", "new", "weights loaded", "BLEU"),
            "mkdir data; cp RUN/vocab.* data/vocab.text_pairs.8000.subwords",
        ),
        Run("# both.toml"),
        Run(
            "t2t-lite-datagen --problem=text_mixture --mixture=both",
            {"--tmp_dir=downloads": "--tmp_dir={multi30k_dir} --vocab_size=600 --max_cases=2000"} | TRAIN,
            ("both/run/ckpt-2.index",),
        ),
        Run(
            "t2t-lite-datagen --problem=text_pairs",
            TRAIN,
            ("reverse/run/ckpt-2.index", "back.en"),
        ),
        Run("# back.toml"),
        Run(
            "t2t-lite-datagen --problem=text_mixture --mixture=back",
            TRAIN,
            ("more/run/ckpt-2.index",),
            before="cp in.txt back.en",  # after two steps, a model's outputs may all be empty
        ),
    ],
    "docs/parsing.md": [
        Run(
            "t2t-lite-datagen --problem=wsj",
            TRAIN,
            ("trees.txt",),
            ("F1",),
        ),
        Run("t2t-lite-datagen --problem=tagged", TRAIN | AVERAGE, ("dev.trees",), ("F1",)),
    ],
    "docs/plugins.md": [
        Run(
            "t2t-lite-trainer --t2t_usr_dir=mine --problem=digits", TRAIN, ("digits/run/ckpt-2.index",), needs=("mine",)
        ),
        Run(
            "pip install",
            {"pip install ./tests/example_plugin\n": "", "--generate_data": "--tmp_dir={multi30k_dir} --generate_data"}
            | TRAIN,
            ("captions/run/ckpt-2.index",),
            needs=("example",),  # it does what the first line says, in a folder of its own
        ),
        Run(
            "t2t-lite-trainer --problem=labelled",
            EVALUATED,
            ("labels/run/ckpt-2.index",),
            ("dev exact_match",),
        ),
        Run(
            "t2t-lite-trainer --t2t_usr_dir=mine --registry_help",
            TRAIN_WITH | {"--train_steps=400 ": ""},
            ("average/ckpt-2.index",),
            ("average_decay = 1.0",),
            "cp -r {grammar_data} data; mkdir runs; cp -r {grammar_data} runs/mine",
        ),
        Run(
            "t2t-lite-trainer --t2t_usr_dir=mine --problem=grammar_ende --hparams_set=transformer_tiny --train_steps=4",
            its_own_steps(TRAIN_WITH),
            ("runs/mine/rmsprop/ckpt-4.index",),
        ),
        Run(
            "t2t-lite-trainer --t2t_usr_dir=mine --problem=grammar_ende --hparams_set=transformer_tiny --train_steps=2",
            its_own_steps(EVALUATED),
            ("runs/mine/out.txt", "runs/mine/curve.png"),
            ("length error",),
        ),
        Run("t2t-lite-decoder", {"=mine": "=constraint"}),
    ],
    "docs/quality.md": [
        Run(
            "t2t-lite-datagen",
            {"--data_dir=data\n": "--tmp_dir={multi30k_dir} --max_cases=2000 --vocab_size=1000 --data_dir=data\n"}
            | TRAIN_WITH
            | {"--n=10": "--n=1", "data/multi30k_ende_tokenised-dev.inputs.txt": "in.txt"}
            | {"data/multi30k_ende_tokenised-dev.targets.txt": "ref.txt"},
            ("data/multi30k_ende_tokenised-dev.inputs.txt", "data/multi30k_ende_tokenised-dev.targets.txt"),
            ("BLEU",),
        ),
        Run("t2t-lite-trainer", TRAIN_WITH | {"=run": "=other"}, ("other/ckpt-2.index",), (), CAPTIONS),
    ],
    "docs/report.md": [
        Run(
            "t2t-lite-report",
            {"... ": "{small_flags} --data_dir={grammar_data} --output_dir=RUN "},
            ("report.html", "RUN/report.html"),
        ),
    ],
    "docs/reproduce.md": [
        Run(
            "t2t-lite-reproduce --table",
            {"--seeds=2": "--seeds=2 --dry_run"},
            (),
            ("6 of 6 runs to do", "transformer_big"),
        ),
        Run("t2t-lite-reproduce --figure", {}, ("reproduced/figure3.md",)),
    ],
    "docs/serving.md": [
        Run(
            "pip install",
            {"pip install -e '.[serve,ctranslate2]'\n": "", "http://127.0.0.1:8000": "{server_url}"},
            ("ende/README.md",),
            ("ready after", '"translatedText":'),
        ),
        Run("curl", {"http://127.0.0.1:8000": "{server_url}"}, (), ('"hypotheses":', '"score')),
    ],
    "docs/training.md": [
        Run(
            "t2t-lite-trainer --registry_help",
            TRAIN,
            ("RUN/ckpt-2.index",),
            ("transformer_big",),
            "rm -r RUN; cp -r {grammar_data} DIR",
        ),
        Run("t2t-lite-trainer --make_tf_config", {}, (), ("worker 0, the chief\nexport TF_CONFIG=",)),
        Run(
            "t2t-lite-trainer --problem",
            TRAIN_WITH | {"--train_steps=1000 ": "", "--output_dir=RUN": "--output_dir=cosine"},
            ("cosine/ckpt-2.index",),
        ),
    ],
    "docs/translation.md": [
        Run(
            "t2t-lite-datagen --problem=multi30k",
            TRAIN_WITH
            | AVERAGE
            | {"data/multi30k_ende-test.inputs.txt": "in.txt"}
            | {"data/multi30k_ende-test.targets.txt": "ref.txt"},
            ("run/average-2.index", "data/multi30k_ende-test.inputs.txt", "data/multi30k_ende-test.targets.txt"),
            ("BLEU.* = ",),
            CAPTIONS,
        ),
        Run(
            "t2t-lite-trainer --problem=multi30k_ende",
            TRAIN_WITH | AVERAGE | {"data/downloads/train.en.gz": "in.txt", "data/downloads/train.de.gz": "ref.txt"},
            ("forward.de", "backward.en"),
        ),
        Run("# student.toml", {"data/downloads/train.en.gz": "in.txt", "data/downloads/train.de.gz": "ref.txt"}),
        Run(
            "t2t-lite-datagen --problem=text_mixture",
            {"=data/downloads": "={multi30k_dir}"}
            | {"t2t-lite-trainer ": FEW}
            | AVERAGE
            | {"data/multi30k_ende-test.inputs.txt": "in.txt", "data/multi30k_ende-test.targets.txt": "ref.txt"},
            ("longer/average-2.index",),
            # The models of the test leave some outputs empty, and pairs with these are dropped.
            ("train: 290(0[1-9]|10) pairs", "weights loaded", "BLEU.* = "),
        ),
        Run(
            "t2t-lite-datagen --problem=text_pairs",
            TRAIN_WITH,
            ("new.de",),
        ),
    ],
    "docs/troubleshooting.md": [
        Run("sort out.txt", before=": > out.txt; for i in 1 2 3; do echo Wo; done > out.txt", prints=("^ +3 Wo\n",)),
    ],
}
