"""Constraints of a search by the names of their settings."""

from t2t_lite.decoding.search.constraints import MinLength, NoRepeatNgram, Prefix


def constrained(options):
    """Returns options of `beam_search` with constraints for `min_lengths`, `no_repeat_ngram_size` and `prefixes`."""
    options, inputs, constraints = dict(options), {}, []
    if "min_lengths" in options:
        inputs["min_lengths"] = options.pop("min_lengths")
        constraints.append(MinLength())
    if size := options.pop("no_repeat_ngram_size", 0):
        constraints.append(NoRepeatNgram(size))
    if "prefixes" in options:
        inputs["prefixes"] = options.pop("prefixes")
        constraints.append(Prefix(options.pop("never", (0,))))
        options["never"] = ()
    return options | {"constraints": tuple(constraints), "constraint_inputs": inputs}
