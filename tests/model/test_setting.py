import pytest

from postdate.model.errors import Code, RefusedError
from postdate.model.setting import SETTINGS, Settings, Stored, percentile, validate


def stored(tenant_id: int, name: str, value: object, percent: int | None = None) -> Settings:
    one = Stored(tenant_id, name, value, percent)  # type: ignore[arg-type]
    return Settings({(tenant_id, name): one})


def test_a_tenant_s_value_beats_everybody_s_which_beats_the_default() -> None:
    name = "payment.max_amount"
    settings = Settings(
        {
            (0, name): Stored(0, name, 5),
            (7, name): Stored(7, name, 9),
        }
    )
    assert [settings.whole(name, tenant) for tenant in (7, 8)] == [9, 5]
    assert Settings().get(name, 7) == SETTINGS[name].default


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("payment.max_amount", 0, Code.INVALID_FIELD),
        ("payment.max_amount", "many", Code.INVALID_FIELD),
        ("payment.max_amount", True, Code.INVALID_FIELD),
        ("payment.max_amout", 5, Code.UNKNOWN_SETTING),
        ("feature.x", 1, Code.INVALID_FIELD),
    ],
)
def test_a_value_that_is_not_allowed_is_refused(name: str, value: object, code: Code) -> None:
    with pytest.raises(RefusedError) as raised:
        validate(name, value)
    assert raised.value.refusal.code is code


def test_only_features_take_a_percentage() -> None:
    with pytest.raises(RefusedError):
        validate("payment.max_amount", 5, percent=10)
    assert validate("feature.x", value=True, percent=10) is True


def test_a_feature_is_on_for_its_share_of_ids_and_the_same_ones_each_time() -> None:
    ids = [str(n) for n in range(5000)]
    settings = stored(0, "feature.fast", value=True, percent=20)
    on = [i for i in ids if settings.enabled("fast", 3, i)]
    assert 0.17 < len(on) / len(ids) < 0.23
    assert on == [i for i in ids if percentile("fast", i) < 20]
    assert not any(stored(0, "feature.fast", value=False).enabled("fast", 3, i) for i in ids)
    assert not Settings().enabled("fast", 3, "1")
