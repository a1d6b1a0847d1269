"""The observe room."""
