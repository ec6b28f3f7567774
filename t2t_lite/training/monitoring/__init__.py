"""Reports of a training: throughput, utilisation, progress lines and TensorBoard."""
