"""What a server allows and how it batches; the flags of t2t-lite-serve."""

import dataclasses
import math
import re

from t2t_lite.errors import UserError

# Settings of the search that a request may change, and the largest values of those that are numbers. The other settings
# would cost a server time or memory without a limit. beam_size has a limit of its own.
LARGEST_SETTINGS = {
    "beam_size": math.inf,
    "alpha": 10,
    "min_length": 1000,
    "min_length_ratio": 10,
    "coverage_penalty": 100,
    "no_repeat_ngram_size": 100,
    "diverse_beam_groups": math.inf,
    "diverse_beam_strength": 1000,
    "sampling_method": None,
    "sampling_temp": 1000,
    "sampling_keep_top_k": 1_000_000,
    "sampling_keep_top_p": 1,
    "random_seed": 2**31,
    "allow_unk": None,
    "only_trees": None,
}
REQUEST_SETTINGS = tuple(LARGEST_SETTINGS)
# Tokens of a request that asks for attention weights: their number grows with its square.
MAX_ATTENTION_TOKENS = 256


@dataclasses.dataclass(frozen=True)
class ServingOptions:
    """The options of a server.

    Args:
      batch_tokens: source tokens of a batch, padding included; None: what is fastest for the engine of a model.
      batch_delay_ms: how long a batch that is not full waits for more requests, in milliseconds.
      max_waiting: sentences that may wait in the queue of a model; further requests are refused (429).
      max_requests: requests that are answered at the same time; further ones are refused (429).
      max_body_bytes: size of a request's body (413).
      max_lines: sentences in a request (413).
      max_tokens: tokens in a sentence (413).
      max_beam_size: largest beam_size, number of hypotheses or samples that a request may ask for (400).
      timeout_seconds: from the arrival of a request to its answer (504).
      read_seconds: for a client to send a request, and to take its answer.
      request_settings: the settings of the search that a request may change.
      api_keys: a file with a key in each line; None: no keys are needed.
      allowed_hosts: names by which browsers may reach the server, beside its addresses, names without a dot and that of
        its machine (403); "*": all.
      cors_origins: web pages of these origins may call the server; "*": all.
      log_texts: whether the access log has the texts.
      watch_seconds: how often changed models are looked for; 0: only when asked (SIGHUP).
    """

    batch_tokens: int | None = None
    batch_delay_ms: float = 5.0
    max_waiting: int = 16_384
    max_requests: int = 1024
    max_body_bytes: int = 2**20
    max_lines: int = 2000
    max_tokens: int = 512
    max_beam_size: int = 16
    timeout_seconds: float = 30.0
    read_seconds: float = 10.0
    request_settings: tuple[str, ...] = REQUEST_SETTINGS
    api_keys: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()
    log_texts: bool = False
    watch_seconds: float = 0.0

    def __post_init__(self) -> None:
        if unknown := sorted({*self.request_settings} - {*REQUEST_SETTINGS}):
            raise UserError(
                f"`request_settings={','.join(unknown)}`: requests may change {', '.join(REQUEST_SETTINGS)}", status=2
            )
        for host in self.allowed_hosts:
            if set(host) & set("/:@ "):
                raise UserError(f"`allowed_hosts={host}`: give names without scheme and port", status=2)
        for origin in self.cors_origins:
            if origin != "*" and not re.fullmatch("[^:/ ]+://[^/ ]+", origin):
                raise UserError(f"`cors_origins={origin}`: give scheme and host, such as https://example.org", status=2)
        if self.max_lines > self.max_waiting:
            raise UserError(
                f"`max_lines={self.max_lines}` is more than `max_waiting={self.max_waiting}`: a request of that size "
                f"would never find room",
                status=2,
            )
