"""Keras layers of the Transformer, one idea a file, in `keras.ops` only, so that any Keras backend runs them."""
