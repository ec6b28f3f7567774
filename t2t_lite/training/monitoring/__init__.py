"""Reports on a training run: throughput, utilisation, progress lines and TensorBoard."""
