"""Each threat of SECURITY.md names tests that exist: a defence that no test holds is a wish."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
TABLE = re.compile(r"^\| who \|.*?(?=\n\n)", re.DOTALL | re.MULTILINE)
FEWEST = 17


def threats(text: str) -> dict[str, list[str]]:
    """Give the files that hold each threat of the table."""
    _, _, *rows = TABLE.findall(text)[0].splitlines()
    cells = [re.split(r" ?\| ?", row.strip("| ")) for row in rows]
    return {each[0]: re.findall(r"`([\w/]+\.py)`", each[-1]) for each in cells}


def test_every_threat_is_held_by_tests_that_exist() -> None:
    found = threats((TESTS.parent / "SECURITY.md").read_text())
    assert len(found) >= FEWEST
    wanting = {who: files for who, files in found.items() if not files}
    assert wanting == {}, "threats that no test holds"
    gone = [name for files in found.values() for name in files if not _has_test(TESTS / name)]
    assert gone == [], "tests that are not there"


def _has_test(file: Path) -> bool:
    return file.exists() and "\ndef test_" in file.read_text().replace("async def", "def")


def test_a_threat_without_a_test_is_found() -> None:
    table = "| who | defence | held by |\n|---|---|---|\n| a | b | |\n| c | d | `x/y.py` |\n\n"
    assert threats(table) == {"a": [], "c": ["x/y.py"]}
