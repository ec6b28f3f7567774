"""Which part may import which, the table in docs/architecture.md; tests/test_architecture.py checks it."""

# What every part may use besides what is named for it.
BASIS = (
    "errors",
    "registry",
    "config",
    "settings",
    "options",
    "built_in",
    "files",
    "system.quiet",
    "system.installed",
    "system.cores",
    "system.malloc",
    "aliases",
    "arrays",
    "display",
)
# part: (its own modules that it may use, the other packages that it may use), anywhere in the file.
RULES = {
    "layers.ops": (("arrays",), ("keras",)),
    "layers": (("layers", "layers.ops", "config", "registry", "errors", "arrays"), ("keras", "numpy")),
    "models": (
        ("models", "layers", "losses", "schedules", "layers.ops", "config", "registry", "errors", "arrays"),
        ("keras", "numpy"),
    ),
    "losses": (("layers.ops", "errors", "arrays"), ("keras",)),
    "schedules": (("layers.ops", "errors", "arrays"), ("keras",)),
    "checkpoints": (
        ("checkpoints", "system.locks", "run_dir", "scoring.metric", *BASIS),
        ("tensorflow", "keras", "numpy"),
    ),
    "data": (
        ("data", "plugins", "scoring.metric", "system.beam", "visualization.figures", *BASIS),
        (
            "tensorflow",
            "tensorflow_text",
            "tensorflow_datasets",
            "sentencepiece",
            "pyarrow",
            "apache_beam",
            "google",
            "keras",
            "numpy",
            "matplotlib",
        ),
    ),
    "decoding": (
        (
            "decoding",
            "models.base",
            "models.building",
            "models.loading",
            "layers.beam_ancestry",
            "layers.cache",
            "data.vocab",
            "run_dir",
            "exporting.export_dir",
            "checkpoints",
            "system.free_memory",
            "system.gpus",
            "decoding.tuned_settings",
            *BASIS,
        ),
        ("tensorflow", "ctranslate2", "numpy"),
    ),
    "exporting": (
        (
            "exporting",
            "exporting.export_dir",
            "decoding",
            "models",
            "layers",
            "data.vocab",
            "evaluation.report",
            "evaluation.split_scores",
            *BASIS,
        ),
        ("tensorflow", "ctranslate2", "keras", "numpy"),
    ),
    "importing": (
        (
            *("importing", "models", "layers", "data.vocab", "data.problem", "data.manifest", "checkpoints", "run_dir"),
            *("data.generation.existing_data", "data.generation.progress", "data.generation.records"),
            *("data.generation.split_writer", "data.record_index"),
            *("training.optimizers", "exporting.export_dir", *BASIS),
        ),
        ("tensorflow", "numpy"),
    ),
    "parsing": (
        ("parsing", "decoding", "layers.beam_ancestry", "data.vocab", "trees", *BASIS),
        ("tensorflow",),
    ),
    "evaluation": (
        (
            "evaluation",
            "decoding",
            "parsing",
            "training",
            "scoring",
            "data",
            "models.base",
            "checkpoints",
            "plugins.code",
            "run_dir",
            "decoding.tuned_settings",
            "visualization",
            *BASIS,
        ),
        ("tensorflow", "numpy"),
    ),
    "visualization": (
        ("visualization", "decoding.alignment", "data.vocab", *BASIS),
        ("numpy", "matplotlib", "jinja2", "markupsafe"),
    ),
    # It reads what training and evaluation have stored.
    "report": (
        (
            "report",
            "visualization",
            "evaluation",
            "checkpoints",
            "run_dir",
            "data.problem",
            "data.manifest",
            "data.text_files",
            "scoring.metric",
            "training.callbacks",
            "training.monitoring.history",
            *BASIS,
        ),
        ("matplotlib",),
    ),
    "scoring": (("scoring", "trees.tree", *BASIS), ("sacrebleu", "sacremoses", "numpy")),
    "trees": (("trees", "data.text_files", "data.problem", *BASIS), ("nltk",)),
    "benchmark": (
        (
            *("benchmark", "layers", "training", "decoding", "parsing", "data"),
            *("api.export", "plugins", "system.startup", "visualization.figures", *BASIS),
        ),
        (*("tensorflow", "keras", "numpy", "matplotlib"),),
    ),
    "serving": (
        (
            *("serving", "decoding.engine", "decoding.tokenizing", "decoding.translator", "parsing.parser"),
            *("trees.tokenizer", "trees.drawing", "trees.tree", "data.vocab", "visualization"),
            *(
                "api.export",
                "checkpoints.selection",
                "run_dir",
                "exporting.export_dir",
                "decoding.tuned_settings",
                "system.startup",
                *BASIS,
            ),
        ),
        (
            *("fastapi", "fastapi_offline", "starlette", "pydantic", "uvicorn", "prometheus_client", "ray"),
            "python_multipart",
            *("sentencex", "py3langid", "babel", "tensorflow", "numpy"),
        ),
    ),
    # It runs commands in processes of their own, and reads what they have written.
    "reproduce": (
        (
            "reproduce",
            "checkpoints",
            "data.problem",
            "data.manifest",
            "data.vocab",
            "run_dir",
            "evaluation",
            "scoring.metric",
            "models",
            "training",
            "benchmark",
            "visualization",
            *BASIS,
        ),
        ("numpy", "scipy"),
    ),
    "training": (
        (
            "training",
            "trees.linear",
            "schedules",
            "layers.ops",
            "decoding",
            "parsing",
            "scoring",
            "models",
            "layers",
            "data",
            "run_dir",
            "checkpoints",
            "system.free_memory",
            "system.gpus",
            *BASIS,
        ),
        ("tensorflow", "keras", "numpy", "rich"),
    ),
}
# Packages that single modules may use beside those of their part.
ALSO = {
    "t2t_lite.models.traced_cost": ("tensorflow",),  # it reads graphs; models with formulas do not need it
    "t2t_lite.layers.ops": ("tensorflow",),  # for products of transposed matrices, and only where Keras uses it
}
# What answers from stored outputs, without TensorFlow.
STORED_EVALUATION = (
    "options",
    "request",
    "figures",
    "split_scores",
    "scoring",
    "examples",
    "report",
    "comparison",
    "tuning_report",
    "tuning",
)
# What the engine CTranslate2 needs, and so has no TensorFlow.
WITHOUT_TENSORFLOW = (
    "alignment",
    "batching",
    "ctranslate2_engine",
    "engine",
    "line_search",
    "options",
    "loading_exports",
    "single_text",
    "tokenizing",
    "translator",
)
# The same for what is imported when a module is loaded.
RULES_AT_LOADING = {
    "problems": (("problems", "data.problem", "data.text_files", "data.mixture", "trees", *BASIS), ()),
    "trees": (("trees", "data.text_files", "data.problem", *BASIS), ()),
    "hparams": (("hparams", "config", "registry", "errors"), ()),
    "registry": (("errors", "aliases"), ()),
    "data.problem": (("config", "registry", "errors", "files", "scoring.metric"), ()),
    "scoring.metric": (("registry", "errors"), ()),
    "training.cost": (("config", "errors"), ()),
    "training.cost_formulas": (("config", "registry"), ()),
    "run_dir": (("data.problem", "plugins", "checkpoints.versions", "plugins.trust", *BASIS), ()),
    "checkpoints.versions": (("errors", "files"), ()),
    "checkpoints.best_checkpoints": (("scoring.metric", *BASIS), ()),
    "checkpoints.selection": (("checkpoints", "run_dir", "scoring.metric", *BASIS), ()),
    "data.generation.options": (("data.problem", *BASIS), ()),
    "training.checks": (("config", "errors", "data.problem", "data.manifest"), ()),
    "system.free_memory": ((), ("pynvml",)),
    "system.locks": (("errors", "files"), ()),
    "decoding.tuned_settings": (("config", "display", "errors", "files", "settings"), ()),
    "plugins": (("plugins", "registry", "errors", "files"), ()),
    "api": (
        (
            "api",
            "recipes",
            "scoring.metric",
            "data.problem",
            "data.manifest",
            "data.generation.options",
            "decoding.options",
            "evaluation.options",
            "exporting.options",
            "training.callbacks",
            "training.options",
            "training.evaluation.model_selection",
            "decoding.tuned_settings",
            "exporting.export_dir",
            "checkpoints.versions",
            *BASIS,
        ),
        (),
    ),
    # Decoding with CTranslate2 needs no TensorFlow.
    **{
        f"decoding.{name}": (
            (
                *(f"decoding.{other}" for other in WITHOUT_TENSORFLOW),
                "decoding.search.length_penalty",
                "data.vocab",
                "exporting.export_dir",
                *BASIS,
            ),
            ("numpy",),
        )
        for name in WITHOUT_TENSORFLOW
    },
    **{
        f"data.vocab.{name}": (("data.vocab", "errors", "files", "system.quiet"), ("numpy", "sentencepiece"))
        for name in ("base", "files", "sentencepiece", "wordpiece", "words")
    },
    "exporting.export_dir": (BASIS, ()),
    "display": ((), ()),
    **{
        f"evaluation.{name}": (
            (
                "decoding.options",
                *(f"evaluation.{other}" for other in STORED_EVALUATION),
                "checkpoints.selection",
                "checkpoints.versions",
                "data.problem",
                "data.text_files",
                "plugins.code",
                "scoring",
                "run_dir",
                "decoding.tuned_settings",
                "visualization.figures",
                *BASIS,
            ),
            (),
        )
        for name in STORED_EVALUATION
    },
}
