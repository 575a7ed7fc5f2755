"""Where the anchor of all chains is kept."""

from pathlib import Path

from postdate.node.settings import ProcessSettings


def anchor_path(settings: ProcessSettings) -> Path:
    """Return where the anchor is kept."""
    return Path(settings.anchor) if settings.anchor else settings.data_dir / "anchor.jsonl"
