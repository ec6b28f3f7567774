"""What tests share that is no fixture."""
