"""Imports models of other toolkits as run directories: those of tensor2tensor."""
