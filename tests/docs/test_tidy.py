"""Run every tidy rule over the project, and each rule over samples it must catch."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidy import (
    clocks,
    connections,
    generated,
    machine,
    naming,
    pages,
    prose,
    queries,
    size,
    unused,
    words,
)
from tidy.rule import Rule, read_tree

ROOT = Path(__file__).parents[2]
TREE = read_tree(ROOT)
RULES: tuple[Rule, ...] = (
    *size.RULES,
    *words.RULES,
    *naming.RULES,
    *queries.RULES,
    *unused.RULES,
    *clocks.RULES,
    *connections.RULES,
    *machine.RULES,
    *pages.RULES,
    *prose.RULES,
    *generated.RULES,
)


@pytest.fixture(scope="module", autouse=True)
def no_garbage() -> Iterator[None]:
    """Look for no garbage among the parsed files, which stay: that took a quarter of the time."""
    gc.disable()
    yield
    gc.enable()


def by_name(rule: Rule) -> str:
    return rule.name


@pytest.mark.parametrize("rule", RULES, ids=by_name)
def test_the_project_keeps_each_rule(rule: Rule) -> None:
    findings = [str(finding) for finding in rule.check(TREE)]
    assert not findings, "\n" + "\n".join(findings)


@pytest.mark.parametrize("rule", RULES, ids=by_name)
def test_rule_trips_on_each_bad_sample_and_on_no_good_one(rule: Rule) -> None:
    assert rule.bad
    assert rule.good
    for sample in rule.bad:
        assert list(rule.check(sample)), f"{rule.name} passes {sample}"
    for sample in rule.good:
        assert not list(rule.check(sample)), f"{rule.name} trips on {sample}"


def test_every_rule_of_the_modules_has_a_name_of_its_own() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_tree_holds_the_project_and_nothing_ignored() -> None:
    assert {"src/postdate/core/ids.py", "Makefile", ".ci/run", "uv.lock"} <= TREE.keys()
    assert not [path for path in TREE if path.startswith((".venv/", ".tools/", ".git/"))]


def test_wall_clock_exceptions_still_exist() -> None:
    for folder in clocks.WALL_CLOCK_ALLOWED:
        assert any(path.startswith(folder) for path in TREE), f"{folder} is gone"


def test_homonyms_that_are_allowed_still_exist() -> None:
    assert not naming.stale_homonyms(TREE)


@pytest.mark.parametrize("riddle", naming.RIDDLES, ids=lambda riddle: riddle.word)
def test_each_riddle_catches_its_samples(riddle: naming.Riddle) -> None:
    for kind in riddle.kinds:
        for name in riddle.catches.split():
            assert naming.riddle_of(kind, name) is riddle, name


@pytest.mark.parametrize("phrase", prose.PHRASES, ids=lambda phrase: phrase.say)
def test_each_phrase_catches_its_sample(phrase: prose.Phrase) -> None:
    assert prose.phrase_of(phrase.catches) is phrase


@pytest.mark.parametrize("phrase", prose.PAGE_HABITS, ids=lambda phrase: phrase.say)
def test_each_habit_of_pages_catches_its_sample(phrase: prose.Phrase) -> None:
    assert prose.phrase_of(phrase.catches, prose.PAGE_HABITS) is phrase


@pytest.mark.parametrize("synonym", words.SYNONYMS, ids=lambda synonym: synonym.say)
def test_no_synonym_forbids_the_word_to_say(synonym: words.Synonym) -> None:
    for word in synonym.say.replace(".", ", ").split(", "):
        assert words.synonym_of(word) is None


@pytest.mark.parametrize("synonym", words.SYNONYMS, ids=lambda synonym: synonym.say)
def test_each_synonym_catches_its_samples(synonym: words.Synonym) -> None:
    assert synonym.catches
    for name in synonym.catches.split():
        assert words.synonym_of(name) is synonym, name
