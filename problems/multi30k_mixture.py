"""Multi30k into several languages with one model: a mixture of problems with a tag for the target language."""

from t2t_lite.data.mixture import Mixture, Part
from t2t_lite.registry import PROBLEMS


@PROBLEMS.register
class Multi30kEndefr(Mixture):
    """English captions into German and French: a sentence begins with <2de> or <2fr>; 58,000 pairs."""

    source_language = "en"
    vocab_size = 8000
    byte_fallback = False  # like its parts
    num_shards = 4
    parts = (Part("multi30k_ende", tag="<2de>"), Part("multi30k_enfr", tag="<2fr>"))
