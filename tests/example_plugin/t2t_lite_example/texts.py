"""Problems of the language model and the classifier, and their sets. Nothing here needs TensorFlow."""

from t2t_lite.config import DecodeHParams
from t2t_lite.data.problem import Example, Problem
from t2t_lite.problems.multi30k import Multi30kEnde
from t2t_lite.problems.text_pairs import TextPairs
from t2t_lite.registry import HPARAMS, MODELS, PROBLEMS

MODELS.register_lazily(
    "language_model", "t2t_lite_example.language_model:LanguageModel", "A decoder-only language model."
)
MODELS.register_lazily("text_classifier", "t2t_lite_example.classifier:TextClassifier", "An encoder-only classifier.")


@PROBLEMS.register
class Multi30kEnglish(Multi30kEnde):
    """English image captions without inputs, for a language model."""

    has_inputs = False
    decode_hparams = DecodeHParams(min_length=0)  # a caption may end where its given beginning does
    vocab_size = 4000

    def examples(self, split, files):
        """Yields the captions of a split."""
        return (Example("", pair.inputs) for pair in super().examples(split, files))


@PROBLEMS.register
class LabelledText(TextPairs):
    """Your own labelled text: --train_tsv=F with text, tab and label (one word) in each line; dev, test likewise."""

    shared_vocabulary = False
    targets_vocab_kind = "words"
    vocab_size = 4000
    metric = "exact_match"
    drop_reason = Problem.drop_reason  # a text is longer than its label


@HPARAMS.derive("transformer_tiny")
def language_model_small(tiny):
    """A language model of 4 layers of width 256, for tens of thousands of sentences."""
    return tiny.replace(
        model="language_model",
        hidden_size=256,
        filter_size=1024,
        num_heads=4,
        num_decoder_layers=4,
        norm_position="pre",
        residual_dropout=0.3,
        label_smoothing=0.0,
        batch_tokens=4096,
        learning_rate_warmup_steps=400,
        train_steps=1500,
    )


@HPARAMS.derive("transformer_tiny")
def text_classifier_small(tiny):
    """A classifier of 2 layers of width 128; a step has 128 texts, whose targets are a label and an end symbol."""
    return tiny.replace(
        model="text_classifier",
        tied_embeddings="decoder",
        label_smoothing=0.0,
        batch_tokens=256,
        residual_dropout=0.2,
        learning_rate_warmup_steps=200,
        train_steps=600,
    )
