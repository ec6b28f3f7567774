"""What a training reports: throughput, utilisation, progress lines and TensorBoard."""
