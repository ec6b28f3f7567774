"""One training step: micro-batches, dropout's random numbers, loss, gradients and update."""
