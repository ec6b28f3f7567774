"""What a model costs: parameters, operations and memory."""
