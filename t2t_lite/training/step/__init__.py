"""One training step: micro-batches, random numbers of dropout, loss, gradients and update."""
