"""The estimate against the peak memory of training processes; its properties; free memory from literal kernel files."""

import math
from pathlib import Path

import pytest
from support.memory import peak_memory

from t2t_lite.config import HParams, choices
from t2t_lite.cost import MIB, USABLE_SHARE, choose_max_tokens, cost_of, estimate_memory
from t2t_lite.errors import UserError
from t2t_lite.layers.cross_entropy import largest_chunk
from t2t_lite.registry import HPARAMS
from t2t_lite.system.machine import free_memory

VOCAB = 2000
# The inner layer is the widest tensor for all lengths in these tests.
SMALL = HParams(num_encoder_layers=2, num_decoder_layers=3, hidden_size=32, filter_size=1024, num_heads=2)


def estimate(hparams, length):
    return estimate_memory(cost_of(hparams, VOCAB), length)


def of_layers(name, layers, **changes):
    return HPARAMS[name]().replace(num_encoder_layers=layers, num_decoder_layers=layers, **changes)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("hparams", "vocab_size", "rows", "length", "micro_batches", "num_parallel"),
    [
        (of_layers("transformer_multi30k", 2), 8000, 64, 64, 1, 1),
        (of_layers("transformer_multi30k", 2), 8000, 64, 64, 2, 2),
        (of_layers("transformer_multi30k_modern", 2), 8000, 64, 64, 1, 1),
        (of_layers("transformer_base", 1, precision="mixed_bfloat16"), 2000, 48, 128, 3, 1),
    ],
    ids=["small", "small, two micro-batches at once", "modern", "wide in bfloat16, three micro-batches"],
)
def test_the_estimate_is_not_below_the_measured_peak_and_at_most_twice_that(
    hparams, vocab_size, rows, length, micro_batches, num_parallel
):
    positions = num_parallel * rows * length // micro_batches
    measured = peak_memory(hparams, vocab_size, rows, length, positions, num_parallel=num_parallel)
    assert measured["micro_batches"] == micro_batches
    fixed, per_token = estimate_memory(cost_of(hparams, vocab_size), length, num_parallel)
    assert 1.0 <= (fixed + positions * per_token) / measured["peak"] <= 2.0


@pytest.mark.parametrize(
    "changes",
    [
        *({name: word} for name, words in choices().items() for word in words),
        {"self_attention_type": "local", "attention_dropout": 0.1},
        {"feed_forward_type": "attention", "attention_dropout": 0.1},
        {"residual_dropout": 0.0, "relu_dropout": 0.1},
    ],
    ids=lambda changes: ",".join(f"{name}={value}" for name, value in changes.items()),
)
@pytest.mark.parametrize("length", [1, 37, 4096])
def test_every_choice_of_settings_has_an_estimate(changes, length):
    hparams = SMALL.replace(**changes)
    # A lower bound: the logits with softmax and gradient, and one vector per sub-layer.
    least = 4 * 4 * VOCAB + 2 * (2 * 2 + 3 * 3) * SMALL.hidden_size
    fixed, per_token = estimate(hparams, length)
    assert least < per_token < math.inf and 0 < fixed < math.inf


def test_the_fixed_part_counts_the_weights_four_times_plus_moments_and_an_average():
    hparams = SMALL.replace(num_encoder_layers=1, num_decoder_layers=1)
    wide = hparams.replace(filter_size=8 * 1024)
    size, wide_size = (sum(cost_of(each, VOCAB).parameter_parts().values()) for each in (hparams, wide))
    more = wide_size - size

    def growth(**changes):
        return estimate(wide.replace(**changes), 1).fixed - estimate(hparams.replace(**changes), 1).fixed

    assert growth() == 6 * 4 * more
    assert growth(optimizer="sgd") == 5 * 4 * more
    assert growth(ema_decay=0.999) == 7 * 4 * more
    assert growth(precision="mixed_bfloat16") == (6 * 4 + 2) * more


def test_max_tokens_is_the_number_of_positions_that_fit_the_usable_share():
    fixed, per_token = estimate(SMALL, 64)
    free = (fixed + 1000.5 * per_token) / USABLE_SHARE
    assert choose_max_tokens(SMALL, VOCAB, None, int(free), 64) == 1000


def test_with_several_micro_batches_at_once_each_has_gradients_a_chunk_of_logits_and_room_for_the_longest_sentence():
    length, one = 64, estimate(SMALL, 64)
    chunk = largest_chunk(SMALL.hidden_size) * VOCAB * 4 * 4
    gradients = 4 * sum(cost_of(SMALL, VOCAB).parameter_parts().values())
    free = (one.fixed + chunk + gradients + 1000.5 * one.per_token) / USABLE_SHARE
    assert choose_max_tokens(SMALL, VOCAB, None, int(free), length) > 1010
    fewer = choose_max_tokens(SMALL, VOCAB, None, int(free), length, num_parallel=2)
    assert 900 < fewer <= 1000  # the cast embedding counts for both, too
    for_one = (one.fixed + 65.5 * one.per_token) / USABLE_SHARE
    assert choose_max_tokens(SMALL, VOCAB, None, int(for_one), length, num_parallel=2) == 65


def test_memory_for_less_than_one_sentence_is_an_error():
    length, (fixed, per_token) = 64, estimate(SMALL, 64)
    sentence = length * per_token
    enough = math.ceil((fixed + sentence) / USABLE_SHARE)
    assert choose_max_tokens(SMALL, VOCAB, None, enough + 1, length) == length
    wanted, for_model, free = (math.ceil(number / MIB) for number in (sentence, fixed, enough))
    said = rf"64 tokens takes about {wanted} MiB.* plus {for_model} MiB for model and optimizer.* 80% of the {free} MiB"
    with pytest.raises(UserError, match=said) as error:
        choose_max_tokens(SMALL, VOCAB, None, enough - 100, length)
    assert "max_length" in str(error.value) and "`max_tokens_per_replica=64`" in str(error.value)


# As Linux writes them, shortened.
MEMINFO = "MemTotal: 24684084 kB\nMemFree: 20988892 kB\nMemAvailable:   22000000 kB\nHugePages_Total:       0\n"
AVAILABLE = 22_000_000 * 1024
STAT = "anon 104857600\nfile 73400320\nactive_anon 104857600\ninactive_file 52428800\nactive_file 20971520\n"

# 1024 MiB, of which 170 are used, 50 of them by reclaimable files.
FULL = {"memory.max": "1073741824\n", "memory.current": "178257920\n", "memory.stat": STAT}
LEFT = (1024 - 170 + 50) * MIB
IN_JOB = "0::/user.slice/job.scope\n"
JOB = {"user.slice": FULL, "user.slice/job.scope": FULL | {"memory.max": "max\n"}}
SMALL_JOB = JOB | {"user.slice/job.scope": FULL | {"memory.max": "268435456\n"}}
# Version 1: the group has its path on the host, but in a container its files are at the root.
IN_DOCKER = "9:name=systemd:/\n4:hugetlb,memory:/docker/db406e97df0d\n1:cpu,cpuacct:/\n0::/\n"
VERSION_1 = {"memory.limit_in_bytes": "1073741824\n", "memory.usage_in_bytes": "178257920\n"}
VERSION_1["memory.stat"] = "cache 73400320\ninactive_file 1\ntotal_inactive_file 52428800\n"
UNLIMITED = VERSION_1 | {"memory.limit_in_bytes": "9223372036854771712\n"}


@pytest.mark.parametrize(
    ("group", "files", "free"),
    [
        (IN_JOB, JOB, LEFT),
        (IN_JOB, SMALL_JOB, (256 - 170 + 50) * MIB),
        ("0::/\n", {"": FULL}, LEFT),  # a container sees its own group as the root
        ("0::/\n", {"": {"memory.max": "104857600\n", "memory.current": "178257920\n"}}, 0),
        (IN_DOCKER, {"memory": VERSION_1}, LEFT),
        (IN_DOCKER, {"memory": UNLIMITED}, AVAILABLE),
    ],
    ids=["of both, the outer", "of both, the inner", "container", "full", "version 1", "version 1, no limit"],
)
def test_free_memory_is_the_minimum_over_all_enclosing_control_groups(tmp_path, group, files, free):
    texts = {"proc/meminfo": MEMINFO, "proc/self/cgroup": group}
    for folder, of_folder in files.items():
        texts |= {f"sys/fs/cgroup/{folder}/{name}": text for name, text in of_folder.items()}
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert free_memory("CPU", tmp_path) == free


def test_free_memory_of_this_machine_is_plausible():
    if not Path("/proc/meminfo").exists():
        pytest.skip("there is no /proc/meminfo")
    total = next(int(line.split()[1]) for line in Path("/proc/meminfo").read_text().splitlines() if "MemTotal" in line)
    assert 0 < free_memory("CPU") < total * 1024
    gpu = free_memory("GPU")
    assert gpu is None or gpu > 0
