"""The audit finds a vulnerability, a strange licence, and says what it could not ask about."""

import audit


def test_vulnerabilities_and_packages_without_advisories_are_counted() -> None:
    report = {
        "dependencies": [
            {"name": "good", "version": "1", "vulns": []},
            {"name": "bad", "version": "2", "vulns": [{"id": "PYSEC-1"}]},
            {"name": "unknown", "skip_reason": "not found"},
        ]
    }
    assert audit.vulnerabilities(report) == (["bad 2: PYSEC-1"], 1)


def test_a_licence_that_is_neither_permissive_nor_listed_is_found() -> None:
    locked = "msgspec==1\npsycopg==3\nno-such-package==1\n"
    found = {name: fine for name, _, fine in audit.licences(locked)}
    assert found == {"msgspec": True, "psycopg": True}
    assert not audit.PERMISSIVE.search("GNU Affero General Public License v3")
