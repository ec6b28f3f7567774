"""Imports models of other toolkits (tensor2tensor) as run directories."""
