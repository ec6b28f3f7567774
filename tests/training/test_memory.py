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


def estimate(hparams, length, vocab_size=VOCAB, inputs_vocab_size=None):
    return estimate_memory(cost_of(hparams, vocab_size, inputs_vocab_size), length)


def bytes_per_token(hparams, vocab_size, length):
    return estimate(hparams, length, vocab_size).per_token


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("hparams", "vocab_size", "rows", "length", "micro_batches", "num_parallel"),
    [
        (HPARAMS["transformer_multi30k"]().replace(num_encoder_layers=2, num_decoder_layers=2), 8000, 64, 64, 1, 1),
        (HPARAMS["transformer_multi30k"]().replace(num_encoder_layers=2, num_decoder_layers=2), 8000, 64, 64, 2, 2),
        (
            HPARAMS["transformer_multi30k_modern"]().replace(num_encoder_layers=2, num_decoder_layers=2),
            *(8000, 64, 64, 1, 1),
        ),
        (
            HPARAMS["transformer_base"]().replace(
                num_encoder_layers=1, num_decoder_layers=1, precision="mixed_bfloat16"
            ),
            2000,
            48,
            128,
            3,
            1,
        ),
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
    assert least < bytes_per_token(hparams, VOCAB, length) < math.inf
    assert 0 < estimate(hparams, length).fixed < math.inf


def test_the_fixed_part_counts_the_weights_four_times_plus_moments_and_an_average():
    hparams = SMALL.replace(num_encoder_layers=1, num_decoder_layers=1)
    wide = hparams.replace(filter_size=8 * 1024)
    more = sum(cost_of(wide, VOCAB).parameter_parts().values()) - sum(
        cost_of(hparams, VOCAB).parameter_parts().values()
    )

    def growth(**changes):
        return estimate(wide.replace(**changes), 1).fixed - estimate(hparams.replace(**changes), 1).fixed

    assert growth() == 6 * 4 * more
    assert growth(optimizer="sgd") == 5 * 4 * more
    assert growth(ema_decay=0.999) == 7 * 4 * more
    assert growth(precision="mixed_bfloat16") == (6 * 4 + 2) * more


def test_max_tokens_is_the_number_of_positions_that_fit_the_usable_share():
    length = 64
    fixed = estimate(SMALL, length).fixed
    free = (fixed + 1000.5 * bytes_per_token(SMALL, VOCAB, length)) / USABLE_SHARE
    assert choose_max_tokens(SMALL, VOCAB, None, int(free), length) == 1000


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
    length = 64
    fixed = estimate(SMALL, length).fixed
    sentence = length * bytes_per_token(SMALL, VOCAB, length)
    enough = math.ceil((fixed + sentence) / USABLE_SHARE)
    assert choose_max_tokens(SMALL, VOCAB, None, enough + 1, length) == length
    with pytest.raises(UserError) as error:
        choose_max_tokens(SMALL, VOCAB, None, enough - 100, length)
    message = str(error.value)
    assert "\n" not in message
    assert f"a sentence of 64 tokens takes about {math.ceil(sentence / MIB)} MiB" in message
    assert f"plus {math.ceil(fixed / MIB)} MiB for model and optimizer" in message
    assert f"80% of the {math.ceil(enough / MIB)} MiB" in message
    assert "max_length" in message
    assert "`max_tokens_per_replica=64`" in message


# As Linux writes them, shortened.
MEMINFO = """MemTotal:       24684084 kB
MemFree:        20988892 kB
MemAvailable:   22000000 kB
Buffers:           26400 kB
HugePages_Total:       0
"""
AVAILABLE = 22_000_000 * 1024
STAT = """anon 104857600
file 73400320
inactive_anon 0
active_anon 104857600
inactive_file 52428800
active_file 20971520
"""


def write_files(root, files):
    for name, text in {"proc/meminfo": MEMINFO, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_free_memory_is_the_minimum_over_all_enclosing_control_groups(tmp_path):
    group = "sys/fs/cgroup/user.slice"
    files = {
        "proc/self/cgroup": "0::/user.slice/job.scope\n",
        f"{group}/memory.max": "1073741824\n",
        f"{group}/memory.current": "178257920\n",
        f"{group}/memory.stat": STAT,
        f"{group}/job.scope/memory.max": "max\n",
        f"{group}/job.scope/memory.current": "178257920\n",
        f"{group}/job.scope/memory.stat": STAT,
    }
    # 1024 MiB, of which 170 are used, 50 of them by reclaimable files.
    assert free_memory("CPU", write_files(tmp_path, files)) == (1024 - 170 + 50) * MIB
    files[f"{group}/job.scope/memory.max"] = "268435456\n"
    assert free_memory("CPU", write_files(tmp_path, files)) == (256 - 170 + 50) * MIB


def test_a_container_sees_its_own_group_as_the_root(tmp_path):
    files = {
        "proc/self/cgroup": "0::/\n",
        "sys/fs/cgroup/memory.max": "1073741824\n",
        "sys/fs/cgroup/memory.current": "178257920\n",
        "sys/fs/cgroup/memory.stat": STAT,
    }
    assert free_memory("CPU", write_files(tmp_path, files)) == (1024 - 170 + 50) * MIB


def test_control_groups_of_version_1(tmp_path):
    # The group has its path on the host, but in a container its files are at the root.
    folder = "sys/fs/cgroup/memory"
    files = {
        "proc/self/cgroup": "9:name=systemd:/\n4:hugetlb,memory:/docker/db406e97df0d\n1:cpu,cpuacct:/\n0::/\n",
        f"{folder}/memory.limit_in_bytes": "1073741824\n",
        f"{folder}/memory.usage_in_bytes": "178257920\n",
        f"{folder}/memory.stat": "cache 73400320\ninactive_file 1\ntotal_inactive_file 52428800\n",
    }
    assert free_memory("CPU", write_files(tmp_path, files)) == (1024 - 170 + 50) * MIB
    files[f"{folder}/memory.limit_in_bytes"] = "9223372036854771712\n"  # version 1's value for "no limit"
    assert free_memory("CPU", write_files(tmp_path, files)) == AVAILABLE


def test_a_full_control_group_has_no_free_memory(tmp_path):
    files = {
        "proc/self/cgroup": "0::/\n",
        "sys/fs/cgroup/memory.max": "104857600\n",
        "sys/fs/cgroup/memory.current": "178257920\n",
    }
    assert free_memory("CPU", write_files(tmp_path, files)) == 0


def test_free_memory_of_this_machine_is_plausible():
    if not Path("/proc/meminfo").exists():
        pytest.skip("there is no /proc/meminfo")
    total = next(int(line.split()[1]) for line in Path("/proc/meminfo").read_text().splitlines() if "MemTotal" in line)
    assert 0 < free_memory("CPU") < total * 1024
    gpu = free_memory("GPU")
    assert gpu is None or gpu > 0
