"""Events as they were written, byte for byte. Whatever changes, these can be read."""

from pathlib import Path

EVENTS_FOLDER = Path(__file__).parent / "events"
MANIFEST = EVENTS_FOLDER / "MANIFEST.json"


def golden_files() -> list[Path]:
    """Every golden event: ``TYPE.json``, and ``TYPE.2.json`` and so on for further ones of a type."""
    return sorted(path for path in EVENTS_FOLDER.glob("*.json") if path != MANIFEST)
