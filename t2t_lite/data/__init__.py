"""From text to batches: problems, vocabularies, data generation and the input pipeline."""
