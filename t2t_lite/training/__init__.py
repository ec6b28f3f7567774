"""Training: loss, schedule, optimizer, devices, the loop, checkpoints, averaging and evaluation."""
