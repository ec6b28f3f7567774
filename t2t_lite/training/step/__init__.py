"""One training step: micro-batches, random numbers for dropout, loss, gradients and update."""
