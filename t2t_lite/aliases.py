"""Maps names from tensor2tensor, the paper and other toolkits to ours, for error messages."""

import re

_WHOLE_SPLIT = "not needed here: the whole dev split is evaluated, at every checkpoint"
_RUN_KNOWS = "not needed here: the run directory (`output_dir`) records it"
_DEVICES = "not supported: choose devices with `strategy` and `num_gpus`, and machines with `make_tf_config`"
_BETAS = "not supported: the betas and momentum of optimizer=adafactor, lion and sgd are fixed"
_TOKENS = "as in the paper (change it with t2t-lite-datagen --vocab_size)"
_EXPORT_KNOWS = "not needed here: the export (`export_dir`) or the run directory (`output_dir`) records it"
_EVERY_LINE = "not supported: every line is decoded, in order"

# For each flag or command: patterns for tensor2tensor's names, and the text that follows "tensor2tensor's NAME is".
_NAMES: dict[str, dict[str, str]] = {
    "problem": {
        r"translate_ende_.*?(_rev)?": f"wmt_ende{{1}} here, with 37,000 tokens {_TOKENS}",
        r"translate_enfr_.*?(_rev)?": f"wmt_enfr{{1}} here, with 32,000 tokens {_TOKENS}",
        r"(wsj_)?parsing_english_ptb.*": "wsj_parsing here",
        r"parsing_.*": "treebank_parsing here, with your own trees",
        r"algorithmic_(identity|shift)_.*": "algorithmic_copy here",
        r"algorithmic_reverse_.*": "algorithmic_reverse here",
        r"algorithmic_sort_.*": "algorithmic_sort here",
        r"translate_\w+_\w+|(text2text|summarize|grammar_error)_.*": "text_pairs here, with your own files",
        r"(languagemodel|image|img2img|video|sentiment|librispeech|squad|babi|gym)_.*": (
            "not supported: t2t-lite supports translation, parsing and your own text pairs (text_pairs)"
        ),
    },
    "hparams_set": {
        r"transformer_base_(v[123]|single_gpu)": "t2t_{} here, with the same values; transformer_base has the paper's",
        r"transformer_parsing_(base|big)": "t2t_{} here, with the same values; transformer_parsing has the paper's",
        r"transformer_big_(single_gpu|enfr_big|tpu)": "t2t_transformer_big here; transformer_big is the paper's",
        r"transformer_base_(multistep\d+|range.*)": (
            "transformer_base here: batch_tokens counts over all devices, and gradients are accumulated as needed"
        ),
        r"transformer_(small|ende_\w+)": "transformer_base here, or a smaller set such as transformer_tiny",
        r"transformer_(tpu|packed_tpu|base_bs\d+)": "transformer_base here",
        r"transformer_relative.*": "transformer_base here with `hparams=position_encoding=relative`",
        r"transformer_(timeseries|lm\w*)|(universal|evolved)_transformer\w*|lstm_\w+": "not supported",
    },
    "hparams": {
        "batch_size": "batch_tokens here: real target tokens per step over all devices, not padded tokens per device",
        "num_hidden_layers": "num_encoder_layers and num_decoder_layers here",
        "dropout|layer_prepostprocess_dropout": "residual_dropout here",
        "optimizer_adam_(beta1|beta2|epsilon)": "adam_{1} here",
        "optimizer_multistep_accumulate_steps": (
            "not needed here: batch_tokens counts over all devices, and gradients are accumulated to fit in memory "
            "(`max_tokens_per_replica`)"
        ),
        "optimizer_(adafactor|momentum)_.*": _BETAS,
        "optimizer_.*": "not supported; see optimizer",
        "learning_rate_cosine_cycle_steps": "learning_rate_decay_steps here, with learning_rate_schedule=cosine",
        "learning_rate_(decay_(rate|scheme|staircase)|minimum)": "not supported; see learning_rate_schedule",
        "layer_(pre|post)process_sequence": "norm_position here: post as in the paper, or pre",
        "pos": "position_encoding here",
        "multiply_embedding_mode": "scaled_embeddings here",
        "ffn_layer": "feed_forward_type here",
        "attention_(key|value)_channels": "attention_{1}_size here, per head",
        "shared_embedding(_and_softmax_weights)?": "tied_embeddings here: all, decoder or none",
        "max_input_seq_length|max_target_seq_length": "max_length here",
        "activation_dtype|weight_dtype|mixed_precision_optimizer.*": "precision here",
        "length_bucket_step|min_length_bucket|batch_shuffle_size|max_relative_position_.*": "not needed here",
        "daisy_chain_variables|scheduled_sampling_.*|moe_.*|compress_steps|use_fixed_batch_size": "not supported",
        "clip_grad_norm": "clip_norm here",
        "grad_noise_scale|weight_noise": "not supported: the paper uses no noise",
        "initializer.*": (
            "not supported: weight matrices are initialized as in Glorot and Bengio (2010), embeddings with variance "
            "1 / hidden_size"
        ),
        "eval_drop_long_sequences|eval_steps": _WHOLE_SPLIT,
        "layer_prepostprocess_dropout_broadcast_dims|.*_broadcast_dims|symbol_modality_num_shards": "not needed here",
    },
    "decode_hparams": {
        "batch_size": "batch_tokens here: tokens, padding included",
        "max_input_size": "max_input_length here",
        "write_beam_scores": "return_beams here: all hypotheses with their scores",
        "eos_penalty": "not supported; min_length_ratio prevents outputs from ending early",
        "num_samples|num_decodes": _EVERY_LINE,
        "delimiter": "not supported: every line is one text",
        "force_decode_length": "not supported; see min_length_ratio and extra_length",
        "identity_output|shards|shard_id|log_results|save_images|display_decoded_images": "not supported",
        "use_last_position_only|block_size": "not needed here",
    },
    "trainer": {
        "worker_gpu": "`num_gpus` here (default: all)",
        "local_eval_frequency|iterations_per_loop": "`save_checkpoints_steps` here: every checkpoint is evaluated",
        "eval_steps|eval_throttle_seconds": _WHOLE_SPLIT,
        "eval_run_autoregressive": "`eval_decode` here, which computes BLEU with beam search",
        "eval_use_test_set": "not supported: dev ranks checkpoints; score the test split with t2t-lite-eval",
        "model_dir|train_dir": "`output_dir` here",
        "eval_early_stopping_steps": "`early_stopping_patience` here, counted in evaluations",
        "eval_early_stopping_metric": "`eval_metric` here",
        "eval_early_stopping_metric_(delta|minimize)": (
            "not needed here: the metric determines whether higher or lower is better"
        ),
        "keep_checkpoint_every_n_hours": "`keep_checkpoint_max` here, or `keep_best_n`",
        "dbgprofile": "`profile` here",
        "use_tpu": "`strategy=tpu` here",
        "worker_(replicas|id|job|gpu_memory_fraction)|ps_.*|sync|master|gpu_order|daisy_chain_variables|locally_shard_to_cpu|optionally_use_"
        "dist_strat|cloud_.*|tpu_.*|log_device_placement|gpu_.*|intra_op.*|inter_op.*": _DEVICES,
        "export_saved_model|tfdbg|autotune.*|hparams_range|std_server_protocol|parsing_path": "not supported",
    },
    "decoder": {
        "problems?|model|hparams_set|hparams|data_dir": _RUN_KNOWS,
        "model_dir": "`output_dir` here",
        "decode_use_last_position_only|decode_in_memory|decode_shards": "not needed here",
        "worker_gpu": "not needed here: all devices are used",
        "decode_reference|eval_.*": "not supported: score the output with t2t-lite-score",
    },
    "datagen": {
        "(no)?generate|task_id_.*": "not needed here",
        "num_concurrent_processes": "`num_workers` here",
        "random_seed": "not needed here: data generation is deterministic",
        "task_id|run_all|parallelism|exclude_problems|only_list": "not supported: pass one `problem`",
    },
    "avg": {
        "model_dir|prefix": "`output_dir` here: the run directory, which also receives the average",
        "num_last_checkpoints|num_checkpoints": "`n` here",
        "checkpoints|output_path": "not supported: choose the run's checkpoints with `n`, `steps` or `best`",
        "min_steps": "`steps` here",
        "wait_minutes": "not supported: average after training ends, or train with `hparams=ema_decay=RATE`",
    },
    "export": {
        "problems?|model|hparams_set|hparams|data_dir": _RUN_KNOWS,
        "model_dir": "`output_dir` here",
        "export_as_tfhub": "not supported: `format` takes saved_model, keras or ctranslate2",
        "decode_(in_memory|shards)|worker_gpu|schedule": "not needed here",
    },
    "serve": {
        "servers?": "`host` and `port` here: this command is the server; query it with curl or a LibreTranslate client",
        "servable_name|model_name": "not needed here: a model is named after its directory",
        "problems?|model|hparams_set|hparams|data_dir": _EXPORT_KNOWS,
        "model_dir|model_base_path": "`output_dir` or `export_dir` here",
        "rest_api_port": "`port` here",
        "inputs_once": "not supported: send texts with curl, or use t2t-lite-decoder",
        "timeout_secs": "`timeout_seconds` here",
        "cloud_mlengine_.*|enable_batching|batching_parameters_file|model_config_file": "not needed here",
    },
    "score": {
        "translation": "`hypothesis` here",
        "translations_dir|translation_dir|source": "not supported: pass files with `hypothesis`",
        "event_dir|tag_suffix|min_steps|wait_minutes": (
            "not supported: t2t-lite-trainer --eval_decode scores checkpoints during training"
        ),
    },
    "hparams=optimizer": {
        "(?i)(true|lazy|multistep)?_?adam": "adam here",
        "(?i)adam_?w": "adamw here",
        "(?i)adafactor": "adafactor here",
        "(?i)sgd|momentum": "sgd here, with momentum 0.9",
        "(?i)rms_?prop|yellow_?fin|adagrad": "not supported; a plug-in can register it",
    },
    "hparams=learning_rate_schedule": {
        r"(constant\*)?linear_warmup\*rsqrt_decay.*|legacy|noam": "inverse_sqrt here",
        "cosdecay|.*cosine.*|sgdr": "cosine here",
        "linear_decay": "linear here",
        r"(constant\*)?linear_warmup": "constant here",
    },
    "schedule": {
        "continuous_train_and_eval|train_and_evaluate_.*|local_run|test": "train_and_evaluate here, the default",
        "continuous_eval.*|evaluate|eval_.*": "eval here",
    },
}
_LAYERS = "num_encoder_layers and num_decoder_layers"
_RATE = "learning_rate (the peak rate; learning_rate_constant multiplies the paper's)"
# Names that the paper and other toolkits use.
_USUAL: dict[str, dict[str, str]] = {
    "hparams": {
        **dict.fromkeys(("N", "layers", "num_layers", "n_layers"), _LAYERS),
        **dict.fromkeys(("d_model", "model_dim", "embedding_size", "emb_size", "hidden_dim"), "hidden_size"),
        **dict.fromkeys(("d_ff", "ffn_dim", "ff_size"), "filter_size"),
        **dict.fromkeys(("h", "heads", "n_heads"), "num_heads"),
        **dict.fromkeys(("d_k", "key_dim"), "attention_key_size"),
        **dict.fromkeys(("d_v", "value_dim"), "attention_value_size"),
        **dict.fromkeys(("P_drop", "p_drop", "dropout_rate"), "residual_dropout"),
        **dict.fromkeys(("epsilon_ls", "smoothing"), "label_smoothing"),
        **dict.fromkeys(("lr", "rate"), _RATE),
        **dict.fromkeys(("warmup", "warmup_steps"), "learning_rate_warmup_steps"),
        **dict.fromkeys(("epochs", "num_epochs", "max_epochs", "steps", "max_steps"), "train_steps"),
        **dict.fromkeys(("beta1", "beta2", "epsilon"), "adam_beta1, adam_beta2, adam_epsilon"),
        **dict.fromkeys(("wd",), "weight_decay"),
        **dict.fromkeys(("clip", "max_grad_norm", "grad_clip", "clipnorm", "global_clipnorm"), "clip_norm"),
        **dict.fromkeys(("scheduler", "lr_scheduler", "lr_schedule"), "learning_rate_schedule"),
        **dict.fromkeys(("fp16", "bf16", "dtype", "amp"), "precision (mixed_bfloat16, mixed_float16)"),
    },
    "trainer": {**dict.fromkeys(("steps", "max_steps", "num_steps", "training_steps"), "`train_steps`")},
    "decode_hparams": {
        **dict.fromkeys(("beam", "num_beams", "beam_width", "beams"), "beam_size"),
        **dict.fromkeys(("lenpen", "len_penalty", "normalize"), "alpha"),
        **dict.fromkeys(("temperature", "temp"), "sampling_temp"),
        **dict.fromkeys(("top_k", "topk"), "sampling_keep_top_k"),
        **dict.fromkeys(("top_p", "topp"), "sampling_keep_top_p"),
        **dict.fromkeys(("nbest", "n_best"), "return_beams=True with beam_size"),
        **dict.fromkeys(("max_length", "max_len"), "extra_length (beyond the input's length)"),
    },
}

# Maps each of our commands to the tensor2tensor program that does the same job.
PROGRAMS = {
    "datagen": "t2t-datagen",
    "trainer": "t2t-trainer",
    "decoder": "t2t-decoder",
    "avg": "t2t-avg-all",
    "score": "t2t-bleu",
    "export": "t2t-exporter",
    "serve": "t2t-query-server and TensorFlow Serving",
}


def alias_hint(where: str, name: str) -> str:
    """Returns a hint for a name from another toolkit: "; NAME is ... here" or "; tensor2tensor's NAME is ..."; else "".

    `where` tells how the name was used: the flag or setting that received it as a value ("problem", "schedule",
    "hparams=optimizer"), the flag that received it as a setting's name ("hparams", "decode_hparams"), or the command
    that received it as a flag ("trainer"). The name has no leading dashes.
    """
    if ours := _USUAL.get(where, {}).get(name):
        return f"; {name} is {ours} here"
    for pattern, advice in _NAMES.get(where, {}).items():
        if match := re.fullmatch(pattern, name):
            return f"; tensor2tensor's {name} is {advice.format(name, *match.groups(''))}"
    return ""
