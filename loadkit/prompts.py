"""Prompts of a planned length without a tokenizer."""
