"""From text to batches: problems, vocabularies, generation and the input pipeline."""
