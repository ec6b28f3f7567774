"""Evaluation on the dev split: during training, beside it, and the choice of the best checkpoint."""
