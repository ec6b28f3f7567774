"""The paper's equations in NumPy."""

import math

import numpy as np


class PaperInNumpy:
    """The paper's equations for one sentence, float64 [length, hidden], head by head, with the weights of our layers.

    A mask `allowed` is bool [queries, keys].
    """

    @staticmethod
    def randomize(layer, seed=0):
        """Gives every weight of a built layer a random value, so that none is 0 or 1 as it starts out."""
        rng = np.random.default_rng(seed)
        for variable in layer.variables:
            spread = variable.shape[0] ** -0.5
            variable.assign(rng.normal(0.0, spread, variable.shape).astype("float32"))

    @staticmethod
    def attention(queries, keys, values, allowed):
        """Equation 1; forbidden scores are minus infinity, and every query may attend to something."""
        scores = np.where(allowed, queries @ keys.T / math.sqrt(keys.shape[1]), -np.inf)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True) @ values

    @classmethod
    def multi_head(cls, layer, x, memory, allowed):
        """Section 3.2.2: every head has its own columns of W^Q, W^K and W^V; W^O mixes them."""
        query, key, value = _float64(layer.query), _float64(layer.key), _float64(layer.value)
        depth = x.shape[1] // layer.num_heads
        heads = []
        for head in range(layer.num_heads):
            mine = slice(head * depth, (head + 1) * depth)
            heads.append(cls.attention(x @ query[:, mine], memory @ key[:, mine], memory @ value[:, mine], allowed))
        return np.concatenate(heads, axis=1) @ _float64(layer.output_projection)

    @staticmethod
    def feed_forward(layer, x):
        """Equation 2."""
        hidden = x @ _float64(layer.expand.kernel) + _float64(layer.expand.bias)
        return np.maximum(0.0, hidden) @ _float64(layer.project.kernel) + _float64(layer.project.bias)

    @staticmethod
    def layer_norm(layer, x):
        """Each position's vector with mean 0 and variance 1, then scale and offset."""
        centered = x - x.mean(axis=1, keepdims=True)
        deviation = np.sqrt((centered**2).mean(axis=1, keepdims=True) + 1e-6)
        return centered / deviation * _float64(layer.norm.gamma) + _float64(layer.norm.beta)

    @classmethod
    def encoder_layer(cls, layer, x, allowed):
        """Section 3.1: LayerNorm(x + Sublayer(x)), twice."""
        x = cls.layer_norm(layer.self_attention_residual, x + cls.multi_head(layer.self_attention, x, x, allowed))
        return cls.layer_norm(layer.feed_forward_residual, x + cls.feed_forward(layer.feed_forward, x))

    @classmethod
    def decoder_layer(cls, layer, x, allowed, encoded, source_allowed):
        """Section 3.1: LayerNorm(x + Sublayer(x)), three times."""
        x = cls.layer_norm(layer.self_attention_residual, x + cls.multi_head(layer.self_attention, x, x, allowed))
        y = cls.multi_head(layer.cross_attention, x, encoded, source_allowed)
        x = cls.layer_norm(layer.cross_attention_residual, x + y)
        return cls.layer_norm(layer.feed_forward_residual, x + cls.feed_forward(layer.feed_forward, x))

    @staticmethod
    def position(pos, channel, hidden_size):
        """Section 3.5, one element of the positional encoding."""
        angle = pos / 10000.0 ** (2 * (channel // 2) / hidden_size)
        return math.cos(angle) if channel % 2 else math.sin(angle)

    @classmethod
    def logits(cls, model, inputs, targets, counted=None, word_token=None, brackets=None):
        """The whole model on one unpadded sentence pair: lists of ids -> float64 [target length, vocab].

        With a counted token, the encoder's output for the next source word is added to the decoder's input; the number
        of counted tokens (one id or several) so far is the index of that word. Each source token is a word, or each
        word begins with `word_token`, and its vector is the sum of the others' divided by the square root of their
        number. `brackets` maps opening brackets to labels and closing ones to 0; the embeddings of the label of the
        innermost open one and of the number of open ones are added, too.
        """
        matrix = _float64(model.embedding.weight)
        hidden_size = matrix.shape[1]

        def embed(groups):
            positions = [[cls.position(pos, i, hidden_size) for i in range(hidden_size)] for pos in range(len(groups))]
            pooled = [matrix[group].sum(0) / math.sqrt(max(1, len(group))) for group in groups]
            return np.stack(pooled) * math.sqrt(hidden_size) + positions

        words = [[token] for token in inputs] if word_token is None else _words(inputs, word_token)
        encoded = embed(words)
        for layer in model.encoder_layers:
            encoded = cls.encoder_layer(layer, encoded, np.ones((len(words), len(words)), bool))
        before = [0, *targets[:-1]]
        x = embed([[token] for token in before])
        if counted is not None:
            counts = np.cumsum(np.isin(before, counted))
            x = x + np.stack([encoded[min(count, len(words) - 1)] for count in counts])
        if brackets is not None:
            labels, numbers = _open_brackets(before, brackets)
            added = _float64(model.bracket_embedding.weight)[labels] + _float64(model.depth_embedding.weight)[numbers]
            x = x + added * math.sqrt(hidden_size)
        for layer in model.decoder_layers:
            causal = np.tri(len(targets), dtype=bool)
            x = cls.decoder_layer(layer, x, causal, encoded, np.ones((len(targets), len(words)), bool))
        return x @ matrix.T


def _words(tokens, word_token):
    """The tokens of each word without the one that begins it; the last token is a word of its own."""
    words = [[]]
    for token in tokens:
        if token == word_token or token == tokens[-1]:
            words.append([])
        if token != word_token:
            words[-1].append(token)
    return words[1:]


def _open_brackets(tokens, brackets):
    """The label of the innermost open bracket and the number of open ones after each token, see `logits`."""
    stack, labels, numbers = [0], [], []
    for token in tokens:
        if brackets.get(token, 0):
            stack.append(brackets[token])
        elif token in brackets and len(stack) > 1:
            stack.pop()
        labels.append(stack[-1])
        numbers.append(len(stack) - 1)
    return labels, numbers


def _float64(variable):
    return np.array(variable).astype(np.float64)
