"""A server's limits, batching and access: the flags of t2t-lite-serve."""

import dataclasses
import math
import re
from os import PathLike

from t2t_lite.errors import UserError
from t2t_lite.options import Options, option

# The search settings that a request may change, with the largest allowed values of numeric ones. Other settings could
# take unlimited time or memory. `max_beam_size` limits beam_size.
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
# Maximum tokens in a request for attention weights: the number of weights grows with the square of the tokens.
MAX_ATTENTION_TOKENS = 256
MAX_TERMS = 100  # in a request; finding them takes time for each of them


@dataclasses.dataclass(frozen=True)
class ServingOptions(Options):
    """A server's limits, batching and access. Refused requests get the status 400, 401, 403, 408, 413, 429 or 504."""

    translate_letterless: tuple[str, ...] = option(
        (),
        "names of models that also translate texts without a letter of any script, such as 12 or an emoji; *: all",
        unset="those with unknown languages, and parsers; others copy such texts",
        metavar="NAME,...",
    )
    batch_tokens: int | None = option(
        None,
        "maximum source tokens in a batch, including padding",
        unset="1024 with CTranslate2, 4096 with TensorFlow",
        group="batching",
        at_least=1,
    )
    batch_delay_ms: float = option(5.0, "how long an incomplete batch waits for more requests", at_least=0)
    max_waiting: int = option(16_384, "maximum sentences waiting for a model; further requests get 429", at_least=1)
    max_requests: int = option(
        1024, "maximum simultaneous requests; further ones get 429", group="limits of a request", at_least=1
    )
    max_body_bytes: int = option(2**20, "maximum size of a request body", at_least=1)
    max_lines: int = option(2000, "maximum sentences in a request", at_least=1)
    max_tokens: int = option(512, "maximum tokens in a sentence", at_least=1)
    max_beam_size: int = option(16, "maximum beam_size and number of hypotheses", at_least=1)
    timeout_seconds: float = option(30.0, "time limit for an answer; after that, 504", above=0)
    read_seconds: float = option(10.0, "time limit for a client to send a request or receive an answer", above=0)
    request_settings: tuple[str, ...] = option(
        REQUEST_SETTINGS,
        "search settings that a request may change; '': none",
        unset="all that are cheap",
        metavar="NAME,...",
    )
    api_keys: str | PathLike | None = option(
        None,
        "file with one API key per line; requests need one of them",
        unset="none needed",
        group="access",
        metavar="FILE",
    )
    allowed_hosts: tuple[str, ...] = option(
        (),
        "host names by which browsers may reach the server, besides its addresses, names without a dot and this "
        "machine's name; *: all",
        unset="none",
        metavar="NAME,...",
    )
    cors_origins: tuple[str, ...] = option(
        (), "web pages of these origins may call the server; *: all", unset="none", metavar="ORIGIN,..."
    )
    log_texts: bool = option(False, "write the texts of requests to the access log")

    def __post_init__(self) -> None:
        super().__post_init__()
        if unknown := sorted({*self.request_settings} - {*REQUEST_SETTINGS}):
            raise UserError(
                f"`request_settings={','.join(unknown)}`: choose from {', '.join(REQUEST_SETTINGS)}", status=2
            )
        for host in self.allowed_hosts:
            if set(host) & set("/:@ "):
                raise UserError(f"`allowed_hosts={host}`: pass host names without scheme and port", status=2)
        for origin in self.cors_origins:
            if origin != "*" and not re.fullmatch("[^:/ ]+://[^/ ]+", origin):
                raise UserError(f"`cors_origins={origin}`: pass scheme and host, such as https://example.org", status=2)
        if self.max_lines > self.max_waiting:
            raise UserError(
                f"`max_lines={self.max_lines}` is more than `max_waiting={self.max_waiting}`: a request of that "
                f"size would never fit in the queue; raise `max_waiting`",
                status=2,
            )
