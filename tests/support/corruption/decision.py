"""What a superuser may do to what somebody decided, and to the chain: see catalog.py."""

from typing import Final

from support.corruption.tenant import Corruption, of_account

DEFINITIONS: Final = {
    "a client's key is gone": Corruption(
        "DELETE FROM idempotency WHERE subject = '{settled}'",
        "payment_has_idempotency_key",
        "{settled}",
    ),
    "a client's key names another payment": Corruption(
        "UPDATE idempotency SET subject = '{settled_too}' WHERE subject = '{settled}'",
        "idempotency_key_names_its_subject",
        "{key_of_settled}",
    ),
    "a client's key is another one": Corruption(
        "UPDATE idempotency SET key = '{settled_too}' WHERE subject = '{settled}'",
        "idempotency_key_names_its_subject",
        "{settled_too}",
    ),
    "a client's key was for another request": Corruption(
        "UPDATE idempotency SET fingerprint = '{settled_too}' WHERE subject = '{settled}'",
        "idempotency_key_names_its_subject",
        "{key_of_settled}",
    ),
    "an account's floor": Corruption(
        f"UPDATE account SET floor = -100000 WHERE {of_account('bob')}",
        "account_is_as_sealed",
        "bob",
    ),
    "an account is no longer frozen": Corruption(
        f"UPDATE account SET frozen_at = NULL WHERE {of_account('dora')}",
        "account_is_as_sealed",
        "dora",
    ),
    "an account is frozen": Corruption(
        f"UPDATE account SET frozen_at = clock() WHERE {of_account('bob')}",
        "account_is_as_sealed",
        "bob",
    ),
    "an account's currency is given": Corruption(
        f"UPDATE account SET currency = 'USD' WHERE {of_account('dora')}",
        "account_is_as_sealed",
        "dora",
    ),
    "an account's currency is changed": Corruption(
        f"UPDATE account SET currency = 'USD' WHERE {of_account('fay')}",
        "account_is_as_sealed",
        "fay",
    ),
    "an account's largest amount": Corruption(
        f"UPDATE account SET max_amount = NULL WHERE {of_account('eve')}",
        "account_is_as_sealed",
        "eve",
    ),
    "an account is gone": Corruption(
        f"DELETE FROM account WHERE {of_account('zoe')}", "account_is_as_sealed", "zoe"
    ),
    "a closed account is open": Corruption(
        f"UPDATE account SET closed_at = NULL WHERE {of_account('zoe')}",
        "account_is_as_sealed",
        "zoe",
    ),
    "an account is invented": Corruption(
        "INSERT INTO account (bucket, tenant_id, account_id) VALUES (7, {t}, 'ghost')",
        "account_is_as_sealed",
        "ghost",
    ),
    "a key's scopes are raised": Corruption(
        "UPDATE api_key SET scopes = '{{admin}}' WHERE key_id = '{key}'",
        "key_is_as_sealed",
        "{key}",
    ),
    "a key stands for nobody else any more": Corruption(
        "UPDATE api_key SET persons = '{{x}}' WHERE key_id = '{key}'", "key_is_as_sealed", "{key}"
    ),
    "a key is invented": Corruption(
        "INSERT INTO api_key (key_id, tenant_id, hash, hint, scopes, persons) VALUES "
        "('{open_ffff}', {t}, sha256('x'), 'pdk_x', '{{admin}}', '{{x}}')",
        "key_is_as_sealed",
        "{open_ffff}",
    ),
    "a key is gone": Corruption(
        "DELETE FROM api_key WHERE key_id = '{key}'", "key_is_as_sealed", "{key}"
    ),
    "the threshold of approvals": Corruption(
        "UPDATE setting SET value = '1000000' WHERE tenant_id = {t} "
        "AND name = 'payment.approval_above'",
        "setting_is_as_sealed",
        "payment.approval_above",
    ),
    "a setting is gone": Corruption(
        "DELETE FROM setting WHERE tenant_id = {t}",
        "setting_is_as_sealed",
        "payment.approval_above",
    ),
    "a setting is invented": Corruption(
        "INSERT INTO setting (tenant_id, name, value, operator, changed_by) VALUES "
        "({t}, 'payment.max_amount', '99999999', true, 'cli')",
        "setting_is_as_sealed",
        "payment.max_amount",
    ),
    "a destination's address": Corruption(
        "UPDATE destination SET url = 'https://example.org/' WHERE tenant_id = {t}",
        "destination_is_as_sealed",
        "crm",
    ),
    "a lane's limit": Corruption(
        "UPDATE lane SET max_running = 5000 WHERE tenant_id = {t} AND name = 'mail'",
        "lane_is_as_sealed",
        "mail",
    ),
    "what a change set would change": Corruption(
        "UPDATE change_set SET changes = replace(changes::text, 'mail', 'narrow')::jsonb "
        "WHERE change_set_id = '{change_set}'",
        "change_set_is_as_sealed",
        "{change_set}",
    ),
    "what a change set has changed": Corruption(
        "UPDATE change_set SET steps = jsonb_set(steps, '{{0,due}}', jsonb_build_object("
        "'{settled}', clock())) WHERE change_set_id = '{change_set_applied}'",
        "change_set_is_as_sealed",
        "{change_set_applied}",
    ),
    "a change set that was applied is a draft again": Corruption(
        "UPDATE change_set SET status = 'DRAFT' WHERE change_set_id = '{change_set_applied}'",
        "change_set_is_as_sealed",
        "{change_set_applied}",
    ),
    "a change set is gone": Corruption(
        "DELETE FROM change_set WHERE change_set_id = '{change_set}'",
        "change_set_is_as_sealed",
        "{change_set}",
    ),
    "a change set is invented": Corruption(
        "INSERT INTO change_set (bucket, tenant_id, change_set_id, status, created_by, changes, "
        "summary, steps) SELECT bucket, tenant_id, '{change_set_ffff}', 'APPLIED', created_by, "
        "changes, summary, steps FROM change_set WHERE change_set_id = '{change_set}'",
        "change_set_is_as_sealed",
        "{change_set_ffff}",
    ),
    "a calendar's holidays": Corruption(
        "UPDATE calendar SET holidays = '{{}}' WHERE tenant_id = {t}",
        "calendar_is_as_sealed",
        "bank",
    ),
    "a tenant's name": Corruption(
        "UPDATE tenant SET name = name || 'x' WHERE tenant_id = {t}",
        "tenant_is_as_sealed",
        "{tenant}",
    ),
    "a tenant is halted by hand": Corruption(
        "INSERT INTO tenant_halt (tenant_id, kind, mode, from_at, note, set_by) "
        "VALUES ({t}, 'kill', 'hold', clock(), 'x', 'x')",
        "halt_is_as_sealed",
        "kill",
    ),
    "a schedule is no longer paused": Corruption(
        "UPDATE schedule SET paused_at = NULL, paused_note = NULL WHERE schedule_id = '{rent}'",
        "schedule_is_as_sealed",
        "{rent}",
    ),
    "what a schedule pays": Corruption(
        "UPDATE schedule_version SET template = replace(template::text, '5', '5000')::json "
        "WHERE schedule_id = '{rent}'",
        "schedule_is_as_sealed",
        "{rent}",
    ),
    "a schedule's rule": Corruption(
        "UPDATE schedule_version SET rule = rule || '{{\"every_seconds\": 1}}' "
        "WHERE schedule_id = '{schedule}'",
        "schedule_is_as_sealed",
        "{schedule}",
    ),
    "a schedule is gone": Corruption(
        "DELETE FROM schedule WHERE schedule_id = '{rent}';"
        "DELETE FROM timer WHERE subject = '{rent}'",
        "schedule_is_as_sealed",
        "{rent}",
    ),
    "a row of a schedule's book is gone": Corruption(
        "DELETE FROM occurrence WHERE schedule_id = '{schedule}' AND occurrence_id = "
        "(SELECT min(occurrence_id::text)::uuid FROM occurrence WHERE schedule_id = '{schedule}')",
        "subject_has_occurrence",
        "{schedule}",
    ),
    "a row of a schedule's book names a stranger": Corruption(
        "UPDATE occurrence SET subject = '{job_open}' WHERE schedule_id = '{schedule}' AND "
        "occurrence_id = (SELECT min(occurrence_id::text)::uuid FROM occurrence "
        "WHERE schedule_id = '{schedule}')",
        "occurrence_has_subject",
        "{schedule}",
    ),
    "a row of a schedule's book counts as skipped": Corruption(
        "UPDATE occurrence SET subject = NULL, kind = NULL, status = 'SKIPPED_BY_PAUSE' "
        "WHERE schedule_id = '{schedule}' AND cause = 'rule'",
        "subject_has_occurrence",
        "{schedule}",
    ),
    "a schedule's progress goes back": Corruption(
        "UPDATE schedule SET handled = handled - interval '2 hours' "
        "WHERE schedule_id = '{schedule}'",
        "schedule_follows_book",
        "{schedule}",
    ),
    "a schedule's runs": Corruption(
        "UPDATE schedule SET runs = runs + 1 WHERE schedule_id = '{schedule}'",
        "schedule_follows_book",
        "{schedule}",
    ),
    "what a schedule made last": Corruption(
        "UPDATE schedule SET last_id = '{job_open}' WHERE schedule_id = '{schedule}'",
        "schedule_follows_book",
        "{schedule}",
    ),
    "a schedule's progress goes on": Corruption(
        "UPDATE schedule SET handled = handled + interval '1 hour' "
        "WHERE schedule_id = '{schedule}'",
        "schedule_follows_rule",
        "{schedule}",
    ),
    "a schedule's timer is later": Corruption(
        "UPDATE timer SET due_at = due_at + interval '1 hour' WHERE subject = '{schedule}'",
        "schedule_follows_rule",
        "{schedule}",
    ),
    "a row of a schedule's book is gone with its job": Corruption(
        "DELETE FROM job WHERE schedule_id = '{schedule}' AND job_id = (SELECT subject "
        "FROM occurrence WHERE schedule_id = '{schedule}' ORDER BY occurrence_id LIMIT 1);"
        "DELETE FROM timer WHERE subject = (SELECT subject FROM occurrence WHERE "
        "schedule_id = '{schedule}' ORDER BY occurrence_id LIMIT 1);"
        "DELETE FROM occurrence WHERE schedule_id = '{schedule}' AND occurrence_id = "
        "(SELECT occurrence_id FROM occurrence WHERE schedule_id = '{schedule}' "
        "ORDER BY occurrence_id LIMIT 1);"
        "UPDATE schedule SET runs = runs - 1 WHERE schedule_id = '{schedule}'",
        "schedule_follows_rule",
        "{schedule}",
    ),
    "a schedule's timer is gone": Corruption(
        "DELETE FROM timer WHERE subject = '{schedule}'", "schedule_follows_book", "{schedule}"
    ),
    "a subscription is ahead of the chain": Corruption(
        "UPDATE subscription SET position = position + 100000 WHERE subscription_id = '{failing}'",
        "subscription_position",
        "{failing}",
    ),
    "a resting subscription goes back": Corruption(
        "UPDATE subscription SET position = 0 WHERE subscription_id = '{resting}'",
        "subscription_position",
        "{resting}",
    ),
    "a paused subscription skips": Corruption(
        "UPDATE subscription SET position = position + 3 WHERE subscription_id = '{paused}'",
        "subscription_is_as_sealed",
        "{paused}",
    ),
    "a subscription goes elsewhere": Corruption(
        "UPDATE subscription SET destination = destination || "
        "'{{\"url\": \"https://example.org/\"}}' WHERE subscription_id = '{resting}'",
        "subscription_is_as_sealed",
        "{resting}",
    ),
    "a subscription is gone": Corruption(
        "DELETE FROM subscription WHERE subscription_id = '{resting}'",
        "subscription_is_as_sealed",
        "{resting}",
    ),
}

CHAIN: Final = {
    "what an event says": Corruption(
        "UPDATE event SET data = data || '{{\"amount\": 1}}' WHERE event_id = '{event_of_moved}'",
        "chain_changed",
        "{event_of_moved}",
    ),
    "who an event names": Corruption(
        "UPDATE event SET actor = 'x' WHERE event_id = '{event_of_moved}'",
        "chain_changed",
        "{event_of_moved}",
    ),
    "the state that an event left": Corruption(
        "UPDATE account SET floor = -9 WHERE tenant_id = {t} AND account_id = 'bob';"
        "UPDATE event SET state = state_now(type, tenant_id, subject, data) "
        "WHERE tenant_id = {t} AND type = 'account.created' AND data ->> 'account_id' = 'bob'",
        "chain_changed",
        "{event_of_bob}",
    ),
    "an event is gone": Corruption(
        "DELETE FROM event WHERE event_id = '{event_of_moved}'", "chain_missing", "{event_of_moved}"
    ),
    "an event is slipped in": Corruption(
        "INSERT INTO event (bucket, tenant_id, subject, event_id, type) SELECT bucket, tenant_id, "
        "subject, '{open_ffff}', 'payment.noted' FROM event WHERE event_id = '{event_of_moved}'",
        "chain_unsealed",
        "{open_ffff}",
    ),
    "a seal is gone": Corruption(
        "DELETE FROM seal WHERE tenant_id = {t} AND position = 1",
        "chain_missing",
        "{first_event}",
        in_rounds=("chain_missing", "1"),
        alone=True,
    ),
    "a seal's hash": Corruption(
        "UPDATE seal SET hash = sha256('x') WHERE tenant_id = {t} AND position = 1",
        "chain_changed",
        "1",
        alone=True,
    ),
    "a chain's head": Corruption(
        "UPDATE chain SET hash = sha256('x') WHERE tenant_id = {t}",
        "chain_head",
        "{end}",
        alone=True,
    ),
    "the end of a chain is cut off": Corruption(
        "DELETE FROM seal WHERE tenant_id = {t} AND position = {last_seal};"
        "UPDATE chain SET position = {last_seal} - 1, hash = (SELECT previous FROM seal "
        "WHERE false UNION ALL SELECT '{before_last}'::bytea LIMIT 1) WHERE tenant_id = {t}",
        "chain_cut_off",
        "{last_seal_event}",
        in_rounds=("chain_cut_off", "{before_last_seal}"),
        alone=True,
    ),
}
