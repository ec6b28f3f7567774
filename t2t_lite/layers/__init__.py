"""Keras layers of the Transformer, one concept per file. They use only `keras.ops`, so any Keras backend runs them."""
