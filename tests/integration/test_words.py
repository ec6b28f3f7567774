"""Every kind of layer and positions through the commands: trained on two devices, decoded with beam search."""

import pytest

LINES = "The old man sees a dog.\n\nShe sleeps.\n"
CHANGES = [
    "self_attention_type=local,neighborhood_size=4,position_encoding=rotary,feed_forward_type=swiglu,relu_dropout=0.1",
    "self_attention_type=recurrent,position_encoding=sinusoidal_halves,norm_position=pre,norm_type=rms",
    "self_attention_type=convolution,dilation_growth=3,num_encoder_layers=2,position_encoding=learned",
    "position_encoding=relative,attention_dropout=0.1,feed_forward_type=attention,parameter_heads=2,parameter_pairs=16",
]


@pytest.mark.heavy
@pytest.mark.parametrize("changes", CHANGES, ids=lambda changes: changes.split(",")[0])
def test_a_model_is_trained_saved_and_decodes(changes, command, process, grammar_data, tmp_path):
    sizes = dict(pair.split("=") for pair in ["hidden_size=32", "filter_size=64", "num_heads=2", "batch_tokens=512"])
    sizes |= {"num_encoder_layers": "1", "num_decoder_layers": "1", "max_length": "64"}
    sizes |= dict(pair.split("=") for pair in changes.split(","))
    flags = ("--problem=grammar_ende", "--hparams_set=transformer_tiny", f"--data_dir={grammar_data}")
    hparams = "--hparams=" + ",".join(f"{name}={value}" for name, value in sizes.items())
    trained = process(  # in a process, because devices belong to a process
        "trainer", *flags, hparams, f"--output_dir={tmp_path}/run", "--train_steps=3", "--virtual_devices=2"
    )
    assert trained.returncode == 0, trained.stderr
    assert (tmp_path / "run" / "ckpt-3.index").exists()
    decoded = command("decoder", f"--output_dir={tmp_path}/run", stdin=LINES.encode())
    assert decoded.returncode == 0, decoded.stderr
    lines = decoded.stdout.split("\n")
    assert len(lines) == 4
    assert lines[1] == lines[3] == ""
