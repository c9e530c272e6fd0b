"""The command ``sabot``. Thin: it reads options, calls a service or the room, and prints."""
