"""A metric: how many words are wrong."""

import itertools

from t2t_lite.registry import METRICS
from t2t_lite.scoring.metric import Metric, check_lines


@METRICS.register(higher_is_better=False, label="word errors")
class WordErrors(Metric):
    """Words that differ from the reference's word in the same place, percent of the reference."""

    def score(self, hypotheses, references):
        """Returns the share, from 0 up. See `Metric.score`."""
        check_lines(hypotheses, references)
        pairs = [(ours.split(), theirs.split()) for ours, theirs in zip(hypotheses, references)]
        wrong = sum(one != other for pair in pairs for one, other in itertools.zip_longest(*pair))
        return 100 * wrong / sum(len(theirs) for _, theirs in pairs)
