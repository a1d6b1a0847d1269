"""The drive room."""
