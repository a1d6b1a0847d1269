"""The emulator room."""
