"""Settings of models that train in a second."""

from t2t_lite.config import HParams

SMALL_MODEL = HParams(num_encoder_layers=1, num_decoder_layers=1, hidden_size=32, filter_size=64, num_heads=2)
SMALL_MODEL = SMALL_MODEL.replace(batch_tokens=512, max_length=64, learning_rate_warmup_steps=100)
