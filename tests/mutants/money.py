"""Bugs of settlement, holds, halts, approvals, commits and the chain of events."""

from mutants.mutant import mutant

DECIDE = "ledger/settle.py"
SETTLE = "stations/test_settle.py"
HELD = "stations/test_settle_held.py"
FUNCTIONS = "database/functions/settlement.sql"
CLOCK = "stations/test_clock_guard.py"
GUARD = "runtime/clock_guard.py"
HALTS = "stations/test_halts.py"
WRITER = "database/connection/writer.py"
GROUP = "runtime/test_coalescer.py"
SEALER = "publisher/sealer.py"
PUBLISHER = "stations/test_publisher.py"
TAMPER = "faults/test_tamper.py"
FORGED = "faults/test_forged_outbox.py"
UNITS = "model/test_money.py"
STATEMENTS = "flows/test_statements.py"
LOST = "faults/test_lost_timer.py"

MUTANTS = (
    mutant(
        "settled_before_due", FUNCTIONS,
        "WHERE t.lane_id = lane AND t.due_at <= clock()\n                   FOR UPDATE OF t SKIP "
        "LOCKED) AS locked\n",
        "WHERE t.lane_id = lane\n                   FOR UPDATE OF t SKIP LOCKED) AS locked\n",
        f"{SETTLE}::test_what_is_put_off_between_the_look_and_the_lock_is_not_settled",
    ),
    mutant(
        "decided_before_due", FUNCTIONS,
        "WHERE t.lane_id = lane AND t.due_at <= clock()\n                   FOR UPDATE OF t SKIP "
        "LOCKED) AS l;\n",
        "WHERE t.lane_id = lane\n                   FOR UPDATE OF t SKIP LOCKED) AS l;\n",
        f"{SETTLE}::test_what_is_put_off_between_the_look_and_the_lock_is_not_settled",
    ),
    mutant(
        "frozen_account_paid_in_the_database", FUNCTIONS,
        "           bool_and(a.frozen_at IS NULL AND a.closed_at IS NULL)\n           AND ",
        "           ",
        f"{HELD}::test_what_fails_falls_out_and_the_others_are_paid",
    ),
    mutant(
        "full_account_paid_in_the_database", FUNCTIONS,
        "    IF credit.fullest > max_balance THEN\n", "    IF false THEN\n",
        f"{HELD}::test_what_fails_falls_out_and_the_others_are_paid",
    ),
    mutant(
        "running_balance_of_the_database", FUNCTIONS,
        'account_id COLLATE "C" ORDER BY n\n', 'account_id COLLATE "C" ORDER BY n DESC\n',
        f"{HELD}::test_the_database_settles_as_python_decides",
    ),
    mutant(
        "order_of_the_database", FUNCTIONS,
        "             ORDER BY due_at, subject) AS l;\n", "             ORDER BY subject) AS l;\n",
        f"{HELD}::test_the_database_settles_as_python_decides",
    ),
    mutant(
        "unheld_taken_for_held", FUNCTIONS,
        "bool_and(coalesce(l.hold, false) AND ", "bool_and(l.amount > 0 AND ",
        f"{HELD}::test_the_database_settles_as_python_decides",
    ),
    mutant(
        "hold_released_twice", DECIDE,
        "        release(payer, amount)\n    payee.balance",
        "        payer.held -= 2 * amount\n    payee.balance",
        "stations/test_ledger_model.py",
    ),
    mutant(
        "hold_kept_on_failure", DECIDE,
        "        if due.hold:\n            release(payer, due.amount)\n        decisions",
        "        decisions",
        f"{SETTLE}::test_a_frozen_account_fails_the_payment_and_releases_the_hold",
    ),
    mutant(
        "held_money_spent_twice", DECIDE,
        "payer.available - due.amount >= payer.floor", "payer.balance - due.amount >= payer.floor",
        "stations/test_ledger_model.py",
    ),
    mutant(
        "frozen_account_pays", DECIDE,
        "        if account.frozen_at is not None:\n", "        if False:\n",
        f"{SETTLE}::test_a_frozen_account_fails_the_payment_and_releases_the_hold",
    ),
    mutant(
        "overtakes_at_its_accounts", DECIDE,
        "if not due.hold and _overtakes(due, open_orders):", "if False:",
        "stations/test_ledger_model.py", "faults/test_settle_races.py",
    ),
    mutant(
        "waits_for_money_without_end", DECIDE,
        "or until is None or at >= until:", "or until is None:",
        f"{SETTLE}::test_the_last_try_is_at_the_end_of_the_wait",
        f"{SETTLE}::test_it_waits_for_money_until_the_instant_it_was_given",
    ),
    mutant(
        "first_clock_believed", GUARD,
        "if (ahead := _ahead(seen.machine, self._node_clock())) > step:",
        "if (ahead := 0.0) > step:",
        f"{CLOCK}::test_a_node_that_starts_under_a_wrong_clock_doubts_it",
    ),
    mutant(
        "return_of_the_clock_taken_for_a_leap", GUARD,
        "self._believe(seen, max(seen.machine, seen.at), step)",
        "self._believe(seen, seen.machine, step)",
        f"{CLOCK}::test_a_clock_that_was_behind_at_the_start_may_return",
    ),
    mutant(
        "doubt_of_another_node_ignored", GUARD,
        "if seen.doubt is not None and not self._abandoned(seen):", "if False:",
        f"{CLOCK}::test_a_node_that_starts_while_another_doubts_the_clock_doubts_it_too",
    ),
    mutant(
        "any_confirmation_counts", GUARD,
        "if _ahead(seen.machine, seen.at) <= step and self._attested(seen, last):",
        "if self._attested(seen, last) or seen.confirmations:",
        f"{CLOCK}::test_a_leap_is_believed_when_a_person_confirms_it",
    ),
    mutant(
        "recorded_time_taken_for_confirmed", GUARD,
        "seen.doubt is None and seen.watched_since <= last and", "seen.doubt is None and",
        f"{CLOCK}::test_a_time_that_a_newer_node_recorded_confirms_nothing",
    ),
    mutant(
        "leap_of_the_clock_believed", "database/connection/clock_belief.py",
        "if offset - self._reference > step_seconds:", "if False:",
        f"{CLOCK}::test_only_a_leap_beyond_what_was_believed_counts",
    ),
    mutant(
        "step_back_and_return_taken_for_a_leap", "database/connection/clock_belief.py",
        "self._reference += max(0.0, gained)", "self._reference += gained",
        f"{CLOCK}::test_only_a_leap_beyond_what_was_believed_counts",
    ),
    mutant(
        "sessions_are_not_informed", "database/connection/pool.py",
        "                await held[0].lent.inform(belief)  # type: ignore[attr-defined]\n", "",
        f"{CLOCK}::test_a_leap_moves_nothing_from_its_first_instant_on",
    ),
    mutant(
        "halt_not_seen_by_the_database", FUNCTIONS,
        " AND l.tenant_id <> ALL (still)), true)", "), true)",
        f"{HALTS}::test_a_killed_tenants_payments_wait_and_others_are_paid",
    ),
    mutant(
        "halt_not_seen_by_settlers", FUNCTIONS,
        "l.tenant_id = ANY (still), NULL::timestamptz", "false, NULL::timestamptz",
        f"{HALTS}::test_a_killed_tenants_payments_wait_and_others_are_paid",
    ),
    mutant(
        "halt_does_not_wait_for_settlers", FUNCTIONS,
        "    PERFORM halt_share();\n    still := (SELECT tenants_held());\n    WHILE",
        "    still := (SELECT tenants_held());\n    WHILE",
        f"{HALTS}::test_the_switch_waits_for_a_settlement_that_has_begun",
    ),
    mutant(
        "halt_does_not_wait", FUNCTIONS,
        "    PERFORM halt_share();\n    still := (SELECT tenants_held());\n    at := clock();\n",
        "    still := (SELECT tenants_held());\n    at := clock();\n",
        f"{HALTS}::test_the_switch_waits_for_a_settlement_that_has_begun",
    ),
    mutant(
        "adjusted_while_halted", "database/functions/halt.sql",
        "    IF tenants && (SELECT tenants_held()) THEN\n", "    IF false THEN\n",
        "flows/test_halts.py",
    ),
    mutant(
        "accepted_while_halted", "database/functions/halt.sql",
        "WHERE (h.kind = 'kill'", "WHERE false AND (h.kind = 'kill'",
        "flows/test_halts.py",
    ),
    mutant(
        "lock_timeout_taken_for_passing", "settlement/settler.py",
        "                await self._blocked.locked.find(attempt.accounts())\n",
        "",
        "faults/test_locked_account.py",
    ),
    mutant(
        "one_bad_payment_blocks_all", "runtime/retry.py",
        "            return await self.divide(items, error)\n",
        "            if len(items) > 1:\n                raise\n"
        "            return await self.divide(items, error)\n",
        "stations/test_settle_culprit.py",
    ),
    mutant(
        "cancel_leaves_the_hold", "payment/change/change.py",
        "        if terms.hold\n    ]", "        if terms.hold and False\n    ]",
        "flows/test_payment_changes.py",
    ),
    mutant(
        "cancel_leaves_the_timer", "payment/change/change.py",
        "    await settlement_store.delete(connection, [timer])\n", "",
        "flows/test_payment_changes.py",
    ),
    mutant(
        "cancel_of_another_tenant", "payment/store/payment_change.sql",
        "AND ($4::integer IS NULL OR tenant_id = $4)", "AND ($4::integer IS NULL OR true)",
        "store/payment/test_payment.py::test_a_payment_of_another_tenant_is_not_even_locked",
    ),
    mutant(
        "approved_by_the_person_who_asked", "payment/change/approval.py",
        "if not persons.isdisjoint(actor.persons):", "if False:",
        "hostile/test_authority.py",
    ),
    mutant(
        "key_with_another_body_replayed", "intake/idempotency.py",
        "if row.fingerprint != request.fingerprint:", "if False:",
        "flows/test_once.py",
    ),
    mutant(
        "lost_commit_taken_for_a_rollback", WRITER,
        "            raise CommitUnknownError(str(error)) from error\n    _refuse",
        "            raise\n    _refuse",
        "store/connection/test_database.py",
    ),
    mutant(
        "warning_at_commit_ignored", WRITER,
        "    if warnings:\n", "    if False:\n",
        "store/connection/test_database.py",
    ),
    mutant(
        "cancelled_await_keeps_its_connection", "database/connection/pool.py",
        "is self.first, found)\n        finally:\n            await release(pool, held)",
        "is self.first, found)\n        except Exception:\n            await release(pool, held)\n"
        "            raise\n        else:\n            await release(pool, held)",
        "hostile/test_cancelled_awaits.py",
    ),
    mutant(
        "broken_off_statement_left_open", "database/connection/session.py",
        "            self.broken_off = True\n", "            pass\n",
        "hostile/test_cancelled_awaits.py",
    ),
    mutant(
        "unknown_commit_repeated", "runtime/coalescer.py",
        "        except (CommitUnknownError, UnavailableError) as error:\n"
        "            # The same for all, and an unknown commit is never repeated blindly.\n"
        "            _fail(waiting, error)\n",
        "",
        f"{GROUP}::test_an_unknown_commit_is_not_repeated",
    ),
    mutant(
        "group_forgets_the_last", "runtime/coalescer.py",
        "must see that no task drains.\n            self._draining.discard(drainer)\n",
        "must see that no task drains.\n"
        "            asyncio.get_running_loop().call_soon(self._draining.discard, drainer)\n",
        GROUP,
    ),
    mutant(
        "acknowledged_before_the_commit", "runtime/coalescer.py",
        "            results = await self._commit([item for item, _ in group])\n",
        "            results = await self._commit([item for item, _ in group])\n"
        "        except CommitUnknownError:\n"
        "            results = [None for _ in group]  # type: ignore[misc]\n",
        GROUP,
    ),
    mutant(
        "seal_older_than_its_events", SEALER,
        "unix_ms = int(now.timestamp() * 1000)",
        "unix_ms = int(now.timestamp() * 1000) - 3 * 86_400_000",
        f"{PUBLISHER}::test_a_seal_is_found_though_the_clock_leapt_before_its_node_noticed",
    ),
    mutant(
        "seal_forgets_the_one_before", SEALER,
        "digest = seal_hash(previous, content)", "digest = seal_hash(bytes(32), content)",
        PUBLISHER, "faults/test_verify.py",
    ),
    mutant(
        "sealer_looks_back_too_little", SEALER,
        "LowWaterMark(margin=LATE, ", "LowWaterMark(",
        PUBLISHER,
    ),
    mutant(
        "edited_event_passes", "publisher/verify.py",
        "if now == sealed or (now is None and self._excused(row.content, number, purged)):",
        "if True:",
        f"{TAMPER}::test_an_edited_event_is_named",
    ),
    mutant(
        "cut_off_chain_passes", "publisher/verify.py",
        "if last is not None and last[0] > self._upto:", "if False:",
        f"{TAMPER}::test_a_tail_that_is_cut_off_is_missed_by_the_anchor",
    ),
    mutant(
        "repeated_event_passes", "publisher/verify.py",
        "in sorted(found.items())[: MAX_FINDINGS - len(self._named)]:", "in ():",
        f"{FORGED}::test_what_is_sealed_twice_is_named",
    ),
    mutant(
        "second_seal_passes", "publisher/verify.py",
        "SECOND_SEAL) if stray else None", "SECOND_SEAL) if False else None",
        f"{FORGED}::test_a_second_seal_at_a_place_is_named",
    ),
    mutant(
        "copied_address_sealed_again", SEALER,
        "    if not known:\n        return unsealed\n", "    return unsealed\n",
        f"{FORGED}::test_what_was_sealed_long_ago_is_not_sealed_again",
    ),
    mutant(
        "false_end_passes", "database/functions/fact.sql",
        "CASE WHEN of_event = outcome_event_id(o.subject, o.finished_at)\n", "CASE WHEN true\n",
        f"{FORGED}::test_a_false_end_of_a_job_is_named",
    ),
    mutant(
        "false_type_passes", "database/functions/fact.sql",
        "CASE WHEN e.type = of_type THEN", "CASE WHEN true THEN",
        f"{FORGED}::test_a_false_type_is_named",
    ),
    mutant(
        "digits_of_the_currency", "core/money.py",
        "        return Currency(currency).exponent or 0\n", "        return 2\n",
        f"{UNITS}::test_an_amount_is_written_in_units_with_the_digits_of_its_currency",
    ),
    mutant(
        "cents_lose_their_zero", "core/money.py",
        "{part:0{scale}}", "{part}",
        f"{UNITS}::test_what_is_written_is_read_back",
    ),
    mutant(
        "another_currency_taken", "core/money.py",
        "    if named is None or named.upper() == currency:\n", "    if named or not named:\n",
        f"{UNITS}::test_what_is_no_amount_is_refused_in_words",
    ),
    mutant(
        "statement_misses_an_entry_of_each_page", "database/functions/account.sql",
        "       AND e.version > after AND e.version <= until\n",
        "       AND e.version > after AND e.version < until\n",
        f"{STATEMENTS}::test_any_period_adds_up_in_every_format",
    ),
    mutant(
        "credit_without_its_payee_sealed", "database/functions/fact.sql",
        "t.from_account, t.from_balance, t.to_account, t.to_balance, t.created_at))",
        "t.from_account, t.from_balance, t.to_balance, t.created_at))",
        "faults/test_tamper_facts.py::test_every_column_of_a_fact_is_sealed",
    ),
    mutant(
        "second_transfer_of_a_payment_passes", "proof/prove_terms.sql",
        "p.to_account, o.transfer_id,\n        o.from_version, o.to_version, o.finished_at)\n",
        "p.to_account, t.transfer_id,\n        t.from_version, t.to_version, o.finished_at)\n",
        "faults/test_corruptions.py",
    ),
    mutant(
        "adjustment_pays_backwards", "ledger/account.py",
        "(issuer, account) if amount > 0 else (account, issuer)",
        "(issuer, account) if amount < 0 else (account, issuer)",
        "store/account/test_entry.py", "flows/test_accounts.py",
    ),
    mutant(
        "payee_looked_up_in_the_bucket_of_the_payer", "database/functions/payment.sql",
        "bucket_of(transfer), coalesce(tenant, first_tenant), transfer, amount,",
        "bucket_of(id), coalesce(tenant, first_tenant), transfer, amount,",
        "stations/test_settle.py", "stations/test_prove.py",
    ),
    mutant(
        "statement_opens_after_its_first_entry", "account/view/statement.py",
        "opening = await entry_store.before(", "opening = await entry_store.at(",
        f"{STATEMENTS}::test_any_period_adds_up_in_every_format",
    ),
    mutant(
        "csv_of_formulas", "core/csv_text.py",
        "    return f\"'{text}\" if text.startswith(_FORMULA) else text\n", "    return text\n",
        f"{STATEMENTS}::test_filters_leave_the_balances_and_the_file_is_no_formula",
    ),
    mutant(
        "transfer_before_its_events", "event/store/event.py",
        "    return max(_rising.after(unix_ms), unix_ms_of(max(subjects, default=MIN_ID)) + 2)",
        "    return unix_ms",
        f"{LOST}::test_two_persons_put_a_payment_back_and_it_is_paid_once",
    ),
    mutant(
        "request_for_what_is_not_lost", "payment/change/put_back.py",
        "            await lost_timer.refuse_found(connection, lost)\n", "",
        f"{LOST}::test_nobody_requests_a_payment_that_is_not_lost",
    ),
)  # fmt: skip
