"""tensor2tensor's sets against its own values."""

import pytest

from t2t_lite.registry import HPARAMS
from t2t_lite.schedules import learning_rate

# layers, hidden, filter, heads, norm, residual / attention / ReLU dropout, beta2, warm-up, peak rate (2 digits), batch
# per GPU, GPUs, max_length, tied; from tensor2tensor's last public source.
VALUES = {
    "base_v1": (6, 512, 2048, 8, "post", 0.1, 0.0, 0.0, 0.98, 4000, 7.0e-4, 4096, 8, 256, "all"),
    "base_v2": (6, 512, 2048, 8, "pre", 0.1, 0.1, 0.1, 0.98, 8000, 9.9e-4, 4096, 8, 256, "all"),
    "base_v3": (6, 512, 2048, 8, "pre", 0.1, 0.1, 0.1, 0.997, 8000, 9.9e-4, 4096, 8, 256, "all"),
    "base": (6, 512, 2048, 8, "pre", 0.1, 0.1, 0.1, 0.997, 8000, 9.9e-4, 4096, 8, 256, "all"),
    "big": (6, 1024, 4096, 16, "pre", 0.3, 0.1, 0.1, 0.997, 8000, 7.0e-4, 2048, 8, 256, "all"),
    "base_single_gpu": (6, 512, 2048, 8, "pre", 0.1, 0.1, 0.1, 0.997, 16_000, 7.9e-4, 1024, 1, 256, "all"),
    "parsing_base": (6, 1024, 2048, 8, "pre", 0.2, 0.2, 0.1, 0.997, 16_000, 4.9e-4, 4096, 1, 512, "none"),
    "parsing_big": (6, 1024, 4096, 16, "pre", 0.1, 0.1, 0.1, 0.997, 4000, 9.9e-4, 2048, 1, 512, "all"),
    "tiny": (2, 128, 512, 4, "pre", 0.1, 0.1, 0.1, 0.997, 8000, 2.0e-3, 4096, 1, 256, "all"),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_set_has_tensor2tensors_values(name):
    hparams = HPARAMS[f"t2t_transformer_{name}"]()
    *sizes, warmup, peak, batch_of_a_gpu, gpus, max_length, tied = VALUES[name]
    assert sizes == [
        hparams.num_encoder_layers,
        hparams.hidden_size,
        hparams.filter_size,
        hparams.num_heads,
        hparams.norm_position,
        hparams.residual_dropout,
        hparams.attention_dropout,
        hparams.relu_dropout,
        hparams.adam_beta2,
    ]
    assert hparams.num_decoder_layers == hparams.num_encoder_layers
    assert hparams.learning_rate_warmup_steps == warmup
    assert f"{float(learning_rate(warmup, hparams)):.1e}" == f"{peak:.1e}"
    assert hparams.batch_tokens == batch_of_a_gpu * gpus
    assert (hparams.max_length, hparams.tied_embeddings) == (max_length, tied)


@pytest.mark.parametrize("name", VALUES)
def test_settings_that_all_tensor2tensor_sets_share(name):
    hparams = HPARAMS[f"t2t_transformer_{name}"]()
    assert hparams.position_encoding == "sinusoidal_halves"
    assert (hparams.adam_beta1, hparams.adam_epsilon, hparams.label_smoothing) == (0.9, 1e-9, 0.1)
    assert (hparams.norm_type, hparams.self_attention_type, hparams.feed_forward_type) == ("layer", "full", "relu")
    assert (hparams.train_steps, hparams.average_checkpoints) == (250_000, 8)


@pytest.mark.parametrize("step", [1, 100, 16_000, 100_000])
def test_the_learning_rate_of_the_single_gpu_set_does_not_depend_on_the_width(step):
    hparams = HPARAMS["t2t_transformer_base_single_gpu"]()
    assert float(learning_rate(step, hparams)) == pytest.approx(0.1 * min(step**-0.5, step * 16_000**-1.5), rel=1e-6)


@pytest.mark.parametrize("name", ["parsing_base", "parsing_big"])
def test_parsing_sets_document_the_learning_rate_that_has_no_effect(name):
    text = HPARAMS[f"t2t_transformer_{name}"].__doc__
    assert "learning_rate=0.05" in text
    assert "no effect" in text
