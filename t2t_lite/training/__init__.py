"""Training: setup, devices, loss, optimizer, learning-rate schedule, the training loop and evaluation."""
