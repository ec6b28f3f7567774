"""Evaluation on the dev split, during training or in a separate process, and selection of the best checkpoint."""
