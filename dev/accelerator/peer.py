"""Measures a peer's step on the same batches: Hugging Face's Marian with PyTorch, compiled, bfloat16, fused AdamW.

python -m dev.accelerator.peer RESULTS.json READY_FILE GO_FILE

It compiles, writes READY_FILE, and waits for GO_FILE, which means that nothing else uses the device. Then it measures.
"""

import os
import statistics
import sys
import time
from pathlib import Path

import torch  # pyright: ignore[reportMissingImports]  it is not a requirement of t2t-lite
import transformers  # pyright: ignore[reportMissingImports]

from dev.accelerator.batches import MEAN_LENGTH, random_batch
from dev.accelerator.cases import Search, plan_for
from dev.accelerator.results import Results
from t2t_lite.config import HParams
from t2t_lite.plugins import load_all
from t2t_lite.registry import HPARAMS


def make_model(hparams: HParams, vocab_size: int) -> torch.nn.Module:
    """Returns a Marian model of the same size as our Transformer, with the paper's layers."""
    config = transformers.MarianConfig(
        vocab_size=vocab_size,
        decoder_vocab_size=vocab_size,
        d_model=hparams.hidden_size,
        encoder_layers=hparams.num_encoder_layers,
        decoder_layers=hparams.num_decoder_layers,
        encoder_attention_heads=hparams.num_heads,
        decoder_attention_heads=hparams.num_heads,
        encoder_ffn_dim=hparams.filter_size,
        decoder_ffn_dim=hparams.filter_size,
        dropout=hparams.residual_dropout,
        attention_dropout=0.0,
        activation_dropout=0.0,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=128,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=0,
        decoder_start_token_id=0,
        forced_eos_token_id=None,
        share_encoder_decoder_embeddings=True,
        attn_implementation="sdpa",
    )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return transformers.MarianMTModel(config).to(device)


class TrainStep:
    """A compiled training step with float32 weights, bfloat16 products and label-smoothed cross-entropy."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model.train()
        device = model.device.type
        self.optimizer = torch.optim.AdamW(
            model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0, fused=True
        )

        def loss(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            with torch.autocast(device, torch.bfloat16):
                shifted = torch.nn.functional.pad(targets[:, :-1], (1, 0))
                logits = model(
                    input_ids=inputs,
                    attention_mask=(inputs != 0).long(),
                    decoder_input_ids=shifted,
                    use_cache=False,
                ).logits
            return torch.nn.functional.cross_entropy(
                logits.float().view(-1, logits.shape[-1]), targets.view(-1), ignore_index=0, label_smoothing=0.1
            )

        self.loss = torch.compile(loss, dynamic=False)

    def __call__(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Runs one step on a batch and returns its loss."""
        loss = self.loss(inputs, targets)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()


def measure(step: TrainStep, batch: dict, tokens: int, seconds: float) -> dict[str, float]:
    """Returns the median time per step over three runs, the speed and, on a GPU, the peak memory."""

    def run(number: int) -> float:
        start = time.perf_counter()
        for _ in range(number):
            loss = step(batch["inputs"], batch["targets"])
        float(loss)
        return time.perf_counter() - start

    run(2)
    once = run(2) / 2
    number = max(round(seconds / 3 / once), 2)
    times = [run(number) / number for _ in range(3)]
    figures = {"step_seconds": statistics.median(times), "tokens_per_second": tokens / statistics.median(times)}
    if torch.cuda.is_available():
        figures["peak_memory_bytes"] = torch.cuda.max_memory_allocated()
    return figures


def generation(model: torch.nn.Module, search: Search, vocab_size: int) -> dict[str, float]:
    """Returns the output tokens per second of `generate` in bfloat16."""
    model = model.eval().to(torch.bfloat16)
    batch = random_batch(round(search.batch * MEAN_LENGTH), vocab_size)["inputs"]
    inputs = torch.from_numpy(batch).long().to(model.device)
    times = []
    for _ in range(3):
        start = time.perf_counter()
        outputs = model.generate(
            input_ids=inputs,
            attention_mask=(inputs != 0).long(),
            num_beams=search.beam_size,
            min_new_tokens=search.steps,
            max_new_tokens=search.steps,
            do_sample=False,
        ).cpu()
        times.append(time.perf_counter() - start)
    tokens = len(outputs) * (outputs.shape[1] - 1)
    return {"seconds": min(times), "tokens_per_second": tokens / min(times)}


class Peer:
    """The peer's measurements. Writes each result to a JSON file as soon as it is known."""

    def __init__(self, file: Path) -> None:
        load_all()
        torch.backends.cuda.matmul.allow_tf32 = True
        self._on_gpu = torch.cuda.is_available()
        self.plan = plan_for(self._on_gpu)
        versions = {"torch": torch.__version__, "transformers": transformers.__version__}
        self._results = Results(file, {"versions": versions})
        self._figures = self._results.figures
        self._prepared: list[tuple] = []

    def prepare(self) -> None:
        """Compiles the step of every case by running it once."""
        for case in self.plan.peer:
            with self._results.noted(case.name):
                batch = random_batch(case.target_tokens, self.plan.vocab_size)
                tokens = int((batch["targets"] != 0).sum())
                device = "cuda" if self._on_gpu else "cpu"
                tensors = {side: torch.from_numpy(ids).long().to(device) for side, ids in batch.items()}
                start = time.perf_counter()
                step = TrainStep(make_model(HPARAMS[case.hparams_set](), self.plan.vocab_size))
                float(step(tensors["inputs"], tensors["targets"]))
                self._figures[case.name] = {"compile_seconds": time.perf_counter() - start}
                self._prepared.append((case.name, step, tensors, tokens))
            self._free_memory()

    def measure(self) -> None:
        """Measures every prepared case and a beam search."""
        for name, step, tensors, tokens in self._prepared:
            with self._results.noted(name):
                if self._on_gpu:
                    torch.cuda.reset_peak_memory_stats()
                self._figures[name] |= measure(step, tensors, tokens, self.plan.seconds)
            self._free_memory()
        with self._results.noted("search"):
            model = make_model(HPARAMS[self.plan.search.hparams_set](), self.plan.vocab_size)
            self._figures["search"] = generation(model, self.plan.search, self.plan.vocab_size)

    def _free_memory(self) -> None:
        if self._on_gpu:
            torch.cuda.empty_cache()


def main(results: str, ready_file: str, go_file: str) -> None:
    """Prepares, waits and measures; see the module."""
    peer = Peer(Path(results))
    peer.prepare()
    Path(ready_file).touch()
    while not os.path.exists(go_file):
        time.sleep(0.2)
    peer.measure()


if __name__ == "__main__":
    main(*sys.argv[1:])
