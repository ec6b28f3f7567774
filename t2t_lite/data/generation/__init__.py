"""Data generation: corpus statistics, vocabulary, plan, shards, manifest."""
