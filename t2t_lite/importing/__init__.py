"""Imports models and data from other toolkits; so far, from tensor2tensor."""
