"""Write the page that says which test caught each seeded bug, from what `make mutants` left."""

import json

from mutants.catalog import MUTANTS
from mutants.mutant import ROOT
from mutants.run import KEPT

PAGE = ROOT / "docs" / "evidence" / "mutants.md"
HEAD = """# Seeded bugs, and what catches them

Each line is one bug that `make mutants` seeds into a copy of the project (`tests/mutants`), with
the test that noticed it in the last run. `make mutants SLICE=1/5` runs a fifth,
`make mutants NAMES="token_reused"` one; this page is written by
`PYTHONPATH=tests .venv/bin/python -m mutants.page` from what they leave in `build/mutants.json`.

"""


def page() -> str:
    """Lay the verdicts out, layer by layer."""
    known = json.loads(KEPT.read_text())
    ran = [each for each in MUTANTS if each.name in known]
    caught = [each for each in ran if known[each.name]["caught"]]
    lines = [
        f"{len(caught)} of {len(ran)} that were run were caught; {len(MUTANTS)} are known.",
        "",
    ]
    lines += ["| layer | bug | file | caught by |", "|---|---|---|---|"]
    for each in sorted(ran, key=lambda mutant: (mutant.layer, mutant.name)):
        found = known[each.name]
        by = found["by"].partition("[")[0] if found["caught"] else "SURVIVED"
        by = by.partition("::")[2] or by
        lines.append(f"| {each.layer} | `{each.name}` | `{each.path}` | `{by}` |")
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
