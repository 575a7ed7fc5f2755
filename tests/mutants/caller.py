"""Bugs where callers meet us: own transaction, test clock, currency, foresight, forms, sets."""

from mutants.mutant import mutant

CLIENT = "database/functions/client.sql"
CLIENT_PAYMENT = "database/functions/client_payment.sql"
DJANGO = "docs/test_django.py"
OWN = "flows/test_own_transaction.py"
ROLES = "hostile/test_own_transaction_roles.py"
FORMS = "hostile/test_forms.py"
PAYMENT_SET = "change_set/change/payment_operation.py"
KILLED_SET = "faults/test_failpoints.py::test_what_is_killed_between_two_commits_goes_on"

MUTANTS = (
    mutant(
        "own_transaction_ignores_scopes", CLIENT,
        "ELSIF scope <> ALL (found.scopes) THEN", "ELSIF false THEN",
        f"{ROLES}::test_limits_of_a_role_hold",
    ),
    mutant(
        "own_transaction_chooses_its_clock", CLIENT,
        "PERFORM client_clock();\n    SELECT r.* INTO found",
        "SELECT r.* INTO found",
        f"{ROLES}::test_a_client_sets_no_clock",
    ),
    mutant(
        "own_transaction_spends_what_is_not_there", CLIENT_PAYMENT,
        "AND payer.balance - payer.held - taken - amount < payer.floor THEN", "AND false THEN",
        f"{OWN}::test_funds_are_decided_when_the_transaction_commits",
    ),
    mutant(
        "own_transaction_mixes_currencies", CLIENT_PAYMENT,
        "IF payer.currency IS DISTINCT FROM payee.currency THEN", "IF false THEN",
        f"{OWN}::test_payer_and_payee_have_one_currency",
    ),
    mutant(
        "currencies_mixed", "ledger/hold.py",
        "if payer.currency != payee.currency:", "if False:",
        "flows/test_currency.py::test_payer_and_payee_have_the_same",
    ),
    mutant(
        "test_clock_leaps_to_its_target", "test_clock/change/advance.py",
        "await self._move(step.at)", "await self._move(self.target)",
        "flows/test_test_clock.py::test_things_happen_in_the_order_of_their_due_times",
    ),
    mutant(
        "test_clock_advanced_by_two", "test_clock/test_clock.sql",
        "coalesce(held_until > (SELECT server_clock()), false) AS held", "false AS held",
        "flows/test_advance.py",
    ),
    mutant(
        "foresight_forgets_a_credit", "foresight/spec/money.py",
        "self.free[payee] += amount\n", "self.free[payee] += 0\n",
        "model/test_foresight_money.py::test_projection_equals_the_decisions_of_the_ledger",
    ),
    mutant(
        "pay_in_for_the_last_shortfall_only", "foresight/spec/remedy.py",
        "self.missing[payer] = total + lack, since", "self.missing[payer] = lack, since",
        "model/test_foresight_remedy.py::test_all_shortfalls_count_not_only_the_first",
    ),
    mutant(
        "charts_draw_cents", "core/money.py",
        "return float(units_of(amount, currency))", "return float(amount)",
        "flows/test_console_numbers.py::test_charts_draw_units_of_the_currency",
    ),
    mutant(
        "command_prints_cents_of_what_lies_inside", "cli/table.py",
        'name.rpartition(".")[2] in MONEY_FIELDS', "name in MONEY_FIELDS",
        "model/test_output.py",
    ),
    mutant(
        "foresight_trusts_credits_to_come", "foresight/spec/money.py",
        "spent[terms.from_account_id] += 0 if terms.hold else amount",
        "spent[terms.from_account_id] = 0 if terms.hold else amount",
        "model/test_foresight_money_naive.py::test_projection_equals_a_naive_settlement",
    ),
    mutant(
        "foresight_does_not_wait_for_money", "foresight/spec/money.py",
        "if at >= until:", "if until >= at:",
        "model/test_foresight_money.py::test_one_that_waits_for_its_money_is_paid_when_it_comes",
    ),
    mutant(
        "foresight_forgets_what_waits", "foresight/spec/lateness.py",
        "waiting += count * parts", "waiting = count * parts",
        "model/test_foresight_lateness.py::test_the_worst_lateness_is_within_its_error",
    ),
    mutant(
        "foresight_counts_changed_days_twice", "recurrence/run_days.py",
        "range(-(-low // SECONDS_A_DAY), high // SECONDS_A_DAY)",
        "range(low // SECONDS_A_DAY, high // SECONDS_A_DAY)",
        "model/test_foresight_count.py::test_a_day_on_which_clocks_change_is_counted_once",
    ),
    mutant(
        "form_sent_twice_does_it_twice", "console/button.py",
        'once = request.form.get("once") or secrets.token_urlsafe(16)',
        "once = secrets.token_urlsafe(16)",
        "flows/test_console_forms.py::test_a_form_that_is_sent_twice_creates_once",
    ),
    mutant(
        "unanswered_form_gets_another_key", "console/page_request.py",
        "if had and (refusal is None or _undecided(refusal)):", "if had and refusal is None:",
        f"{FORMS}::test_a_form_sent_twice_at_once_and_then_once_more_pays_once",
        f"{FORMS}::test_a_form_keeps_its_key_until_it_is_answered",
    ),
    mutant(
        "form_takes_infinity_for_no_limit", "console/form_field.py",
        "return number if math.isfinite(number) else text", "return number",
        f"{FORMS}::test_a_limit_that_is_no_number_does_not_take_the_limit_away",
    ),
    mutant(
        "form_of_another_site_is_taken", "console/page_request.py",
        "    if not from_this_site(request):\n", "    if False:\n",
        "flows/test_console.py::test_a_form_needs_our_origin_and_the_token_of_its_session",
    ),
    mutant(
        "set_forgets_what_it_cancelled", PAYMENT_SET,
        "await work.changed(connection, {found.timer.subject",
        "work.step.due.update({found.timer.subject",
        KILLED_SET,
    ),
    mutant(
        "payment_restored_under_another_key", PAYMENT_SET,
        '{work.note}/{each}",', "{work.note}/{__import__('os').getpid()}/{each}\",",
        KILLED_SET,
    ),
    mutant(
        "set_forgets_what_it_moved", "change_set/change/job_operation.py",
        "await work.changed(\n            connection,\n",
        "(lambda due, new: (work.step.due.update(due), work.step.revisions.update(new)))(\n",
        KILLED_SET,
    ),
    mutant(
        "killed_set_is_never_taken_over", "change_set/change_set.sql",
        "   AND (held_until IS NULL OR held_until < server_clock())\n",
        "   AND held_until IS NULL\n",
        KILLED_SET,
    ),
    mutant(
        "key_sent_to_another_server", "client/configuration.py",
        "and _is_one_server(address, found.url):", "and True:",
        "model/test_configuration.py::test_the_key_of_one_server_is_not_sent_to_another",
    ),
    mutant(
        "watch_repeats_a_change", "cli/operation_command.py",
        'run.reads = self.operation.method == "GET"', "run.reads = True",
        "flows/test_cli_values.py::test_a_mistake_is_told_before_anything_is_sent",
    ),
    mutant(
        "option_sets_another_field", "cli/option.py",
        "path=(*below, field.wire)", "path=(field.wire,)",
        "flows/test_cli.py::test_many_jobs_are_counted_first_and_changed_only_with_yes",
    ),
    mutant(
        "time_that_is_shown_twice_is_guessed", "cli/instant.py",
        "    if first == second:\n", "    if True:\n",
        "model/test_instant_text.py::test_what_nobody_can_know_is_refused",
    ),
    mutant(
        "declared_answer_not_remembered", "resource/resource.py",
        "            await remember(connection, made)\n", "",
        "flows/test_declared_once.py::test_a_field_is_in_the_api_and_in_the_sealed_event",
    ),
    mutant(
        "declared_secret_repeated", "resource/endpoints.py",
        "        hide=hide,\n", "",
        "flows/test_declared_once.py::test_a_field_is_in_the_api_and_in_the_sealed_event",
    ),
    mutant(
        "declared_count_not_limited", "resource/resource.py",
        '            if self.kind == "create":\n', "            if False:\n",
        "flows/test_declared_once.py::test_the_count_is_limited",
    ),
    mutant(
        "declared_scope_of_reading_writes", "resource/resource.py",
        "scope=self.write,", "scope=self.read,",
        "flows/test_declared_once.py::test_rights_limits_and_refusals_follow_from_the_declaration",
    ),
    mutant(
        "django_task_enqueued_before_its_commit", "django/backend.py",
        "                transaction.on_commit(create, using=self.settings.database)\n",
        "                create()\n",
        f"{DJANGO}::test_a_task_is_enqueued_when_the_transaction_commits",
    ),
    mutant(
        "django_runs_any_function", "django/result.py",
        "    if not isinstance(found, Task):\n", "    if not callable(found):\n",
        f"{DJANGO}::test_only_what_is_a_task_is_run_or_found",
    ),
    mutant(
        "django_task_finished_before_its_last_attempt", "django/worker.py",
        "        if ends or lease.attempt >= lease.max_attempts:", "        if True:",
        f"{DJANGO}::test_a_task_that_raised_is_tried_again",
    ),
    mutant(
        "task_that_exits_ends_the_worker", "client/worker.py",
        "        raise ExitedError from error\n", "        raise\n",
        "flows/test_sdk_worker.py::test_an_exception_says_what_follows",
    ),
)  # fmt: skip
