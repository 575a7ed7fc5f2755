import pytest

from postdate.core.setting.setting import Settings, Stored, get_setting, resolve, validate
from postdate.core.setting.table import SETTINGS, TenantMay
from postdate.words.error import Code, RefusedError


def test_a_tenant_s_value_beats_everybody_s_which_beats_the_default() -> None:
    name = "payment.max_amount"
    settings = Settings(
        {
            (0, name): Stored(0, name, 5),
            (7, name): Stored(7, name, 9),
        }
    )
    assert [settings.integer(name, tenant) for tenant in (7, 8)] == [9, 5]
    assert Settings().get(name, 7) == SETTINGS[name].default


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("payment.max_amount", 0, Code.INVALID_FIELD),
        ("payment.max_amount", "many", Code.INVALID_FIELD),
        ("payment.max_amount", True, Code.INVALID_FIELD),
        ("job.jitter", float("nan"), Code.INVALID_FIELD),
        ("settlement.stopped", "x" * 501, Code.INVALID_FIELD),
        ("payment.max_amout", 5, Code.UNKNOWN_SETTING),
        ("feature.x", True, Code.UNKNOWN_SETTING),
    ],
)
def test_a_value_that_is_not_allowed_is_refused(name: str, value: object, code: Code) -> None:
    with pytest.raises(RefusedError) as raised:
        validate(name, value)
    assert raised.value.refusal.code is code


@pytest.mark.parametrize(
    ("name", "value", "detail"),
    [
        ("event.verbose", True, "event.verbose is one of off, on."),
        ("event.verbose", "yes", "event.verbose is one of off, on."),
        ("tenant.tier", 5, "tenant.tier is a string."),
        ("payment.max_amount", "many", "payment.max_amount is a whole number."),
        ("job.jitter", "much", "job.jitter is a number."),
    ],
)
def test_a_refusal_says_what_is_allowed(name: str, value: object, detail: str) -> None:
    with pytest.raises(RefusedError) as raised:
        validate(name, value)
    assert raised.value.refusal.detail == detail


def test_an_unknown_name_is_refused_with_the_one_like_it() -> None:
    with pytest.raises(RefusedError) as raised:
        get_setting("rate.tenant_per_secnd")
    assert "rate.tenant_per_second?" in raised.value.refusal.detail
    with pytest.raises(RefusedError) as raised:
        get_setting("x" * 100_000)
    assert len(raised.value.refusal.detail) < 100


def test_what_holds_for_all_is_not_set_for_one() -> None:
    with pytest.raises(RefusedError):
        validate("settlement.stopped", "why", tenant_id=7)
    assert validate("settlement.stopped", "why") == "why"


@pytest.mark.parametrize(
    ("name", "allowed", "tight", "loose"),
    [
        ("payment.max_amount", 100, 99, 101),
        ("rate.key_per_second", 5.0, 4.0, 0.0),
        ("rate.key_per_second", 0.0, 1e6, None),
        ("payment.approval_above", 100, 50, 0),
        ("schedule.min_interval_seconds", 60, 61, 59),
        ("job.encryption", "on", "on", "off"),
    ],
)
def test_a_tenant_s_value_holds_while_it_is_within_what_the_operator_allows(
    name: str, allowed: object, tight: object, loose: object
) -> None:
    operator = Stored(0, name, allowed)  # type: ignore[arg-type]
    for own, expected in ((tight, "tenant"), (loose, "operator")):
        if own is not None:
            mine = Stored(7, name, own, operator=False)  # type: ignore[arg-type]
            settings = Settings(resolve([mine, operator]))
            held = own if expected == "tenant" else allowed
            assert (settings.get(name, 7), settings.set_by(name, 7)) == (held, expected)
            assert settings.get(name, 8) == allowed


def test_the_operator_s_value_for_a_tenant_bounds_it_rather_than_the_one_for_all() -> None:
    name = "payment.max_amount"
    rows = [Stored(0, name, 10), Stored(7, name, 1000), Stored(7, name, 500, operator=False)]
    assert Settings(resolve(rows)).get(name, 7) == 500


def test_names_that_are_no_longer_known_are_passed_over() -> None:
    assert resolve([Stored(7, "feature.x", value=True, operator=False)]) == {}


def test_what_is_not_declared_is_the_operator_s_and_what_is_for_all_no_tenant_s() -> None:
    undeclared = [name for name, one in SETTINGS.items() if not one.per_tenant]
    assert "settlement.stopped" in undeclared
    for name in undeclared:
        assert SETTINGS[name].tenant_may is TenantMay.NOTHING
