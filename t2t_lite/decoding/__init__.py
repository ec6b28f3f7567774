"""Search for the best output sequence of a model: beam search and its length penalty."""
