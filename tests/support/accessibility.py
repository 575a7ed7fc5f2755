"""What axe finds wrong with a page for people who cannot see or point as others do."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from playwright.async_api import Page

_FOUND = find_spec("axe_playwright_python")
assert _FOUND is not None
assert _FOUND.origin is not None
AXE: Final = Path(_FOUND.origin).with_name("axe.min.js").read_text()
MINOR: Final = "minor"


async def violations(page: "Page") -> list[str]:
    """Return each rule above minor that the page breaks, with the elements that break it."""
    if await page.evaluate("typeof axe === 'undefined'"):
        await page.evaluate(AXE)
    found: dict[str, Any] = await page.evaluate("axe.run({ resultTypes: ['violations'] })")
    return [
        f"{broken['id']} ({broken['impact']}): "
        + "; ".join(str(node["target"][0]) for node in broken["nodes"][:5])
        for broken in found["violations"]
        if broken["impact"] != MINOR
    ]
