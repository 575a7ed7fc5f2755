"""Bugs of deliveries, breakers, subscriptions, schedules and tenants."""

from mutants.mutant import mutant

BREAKER = "delivery/breaker.py"
EXPANSION = "schedule/spec/expansion.py"
SUBSCRIPTION = "subscription/subscription.sql"
DELIVERER = "stations/test_deliverer.py"

MUTANTS = (
    mutant(
        "breaker_never_opens", BREAKER,
        "            if self._failures >= FAILURES:\n", "            if False:\n",
        "model/test_breaker.py",
    ),
    mutant(
        "breaker_lets_every_probe_in", BREAKER,
        "if self._probes >= self._allowance:", "if False:",
        "model/test_breaker.py",
    ),
    mutant(
        "given_up_probe_keeps_its_place", BREAKER,
        "        if probed:\n            self._probes -= 1\n",
        "        if probed and health is not Health.SILENT:\n            self._probes -= 1\n",
        "model/test_breaker.py",
    ),
    mutant(
        "subscription_advanced_by_a_zombie", SUBSCRIPTION,
        "   AND t.token = $4 AND t.claimed_at IS NOT NULL\nRETURNING",
        "   AND $4::bigint > 0 AND t.claimed_at IS NOT NULL\nRETURNING",
        f"{DELIVERER}::test_a_node_that_comes_back_too_late_moves_nothing",
    ),
    mutant(
        "replay_lost_to_a_delivery", SUBSCRIPTION,
        "AND s.version = $5\n   AND s.position <= $6 AND t.bucket = $1 AND t.subject = $3\n"
        "   AND t.token = $4 AND t.claimed_at IS NOT NULL\n",
        "AND $5::integer IS NOT NULL\n   AND t.bucket = $1 AND t.subject = $3\n"
        "   AND $4::bigint IS NOT NULL\n",
        f"{DELIVERER}::test_a_replay_wins_over_a_delivery_under_way",
    ),
    mutant(
        "readers_see_every_tenant", "database/functions/guard.sql",
        "'USING (tenant_id = current_tenant())'", "'USING (true)'",
        "store/test_guards.py::test_a_reader_sees_its_tenant_and_cannot_write",
    ),
    mutant(
        "facts_can_be_changed", "database/functions/guard.sql",
        "    RAISE EXCEPTION '% on % refused: facts are only ever inserted', TG_OP, TG_TABLE_NAME\n"
        "        USING ERRCODE = 'PD001';",
        "    RETURN coalesce(NEW, OLD);",
        "store/test_guards.py", "faults/test_tamper.py",
    ),
    mutant(
        "revoked_key_is_taken", "key/authentication/identity.py",
        "if found is None or found.ended:", "if found is None:",
        "flows/test_keys.py",
    ),
    mutant(
        "step_in_vain_never_rests", "runtime/loop.py",
        "        if self._vain_steps > 1:\n", "        if False:\n",
        "runtime/test_loop.py",
    ),
    mutant(
        "pause_ignored", EXPANSION,
        "        if self._paused(self._due(occurrence)):\n", "        if False:\n",
        "model/test_expansion.py",
    ),
    mutant(
        "first_pause_forgotten", "schedule/store/schedule.sql",
        "CASE WHEN resumed_at > handled THEN paused_at ELSE (SELECT clock()) END", "clock()",
        "flows/test_schedule_runs.py::test_a_second_pause_forgets_nothing_of_the_first",
    ),
    mutant(
        "buffered_one_runs_early", EXPANSION,
        "or self._running or waiting > self._now:", "or self._running:",
        "model/test_expansion.py::test_a_buffered_one_waits_for_a_clock_that_was_put_back",
    ),
    mutant(
        "expanded_without_its_book", "scheduler/expander.py",
        "        await occurrence_store.insert(connection, new)\n", "",
        "faults/test_simulation.py::test_every_history_ends_well",
    ),
    mutant(
        "fired_before_due", EXPANSION,
        "if self._due(coming) > self._now or self._again_at or full:",
        "if self._again_at or full:",
        "model/test_expansion.py::test_nothing_is_due_before_its_instant",
    ),
    mutant(
        "outage_comes_as_a_flood", EXPANSION,
        "            self._again_at = self._now + timedelta(seconds=60 / misfire.per_minute)\n",
        "            pass\n",
        "model/test_expansion.py::test_late_ones_are_paced_and_fresh_ones_wait_behind_them",
    ),
    mutant(
        "overlap_ignored", EXPANSION,
        "                return Status.SKIPPED_BY_OVERLAP\n            case Overlap.CANCEL",
        "                return None\n            case Overlap.CANCEL",
        "model/test_expansion.py",
    ),
    mutant(
        "deaf_broker_kept", "delivery/broker_connections.py",
        "            silent, held.broker = held.broker, None\n            await _close(silent)\n",
        "            held.confirmed_at = since\n",
        "faults/test_queues.py::test_a_nats_connection_that_went_deaf_is_not_used_for_ever",
    ),
    mutant(
        "doubt_of_a_lost_broker_waits", "delivery/nats.py",
        "            self.broker.lose()\n", "            pass\n",
        "faults/test_queues.py::test_what_a_killed_nats_server_cannot_confirm_is_in_doubt_at_once",
    ),
    mutant(
        "redirect_taken_for_success", "delivery/verdict.py",
        "if answer.broken is None and 200 <= status < 300:",
        "if answer.broken is None and 200 <= status < 400:",
        "faults/test_receivers.py",
    ),
    mutant(
        "broken_answer_taken_for_success", "delivery/verdict.py",
        "if answer.broken is None and 200 <= status < 300:", "if 200 <= status < 300:",
        "faults/test_receivers.py",
    ),
    mutant(
        "rest_of_an_answer_not_waited_for", "delivery/answer_parser.py",
        'return b"content-length" not in self.headers', "return True",
        "faults/test_receiver_answers.py",
    ),
    mutant(
        "late_answer_taken_for_the_next", "delivery/connection_pool.py",
        "if fresh and connection.is_quiet():", "if fresh:",
        "faults/test_receiver_answers.py",
    ),
    mutant(
        "other_bytes_follow_an_answer", "delivery/answer_parser.py",
        "        if self.complete:\n            self.reusable = False\n", "        pass\n",
        "faults/test_receiver_answers.py",
    ),
    mutant(
        "peer_not_judged", "delivery/guard.py",
        "            self.judge_peer(opened)\n", "            pass\n",
        "stations/test_guard.py",
    ),
    mutant(
        "paused_destination_called", "delivery/handler.py",
        "seconds) if not paused_too:", "seconds) if paused_too:",
        "stations/test_webhook.py::"
        "test_a_paused_destination_is_not_called_and_a_person_may_test_it",
    ),
    mutant(
        "private_address_called", "destination/spec/target.py",
        "    if any(address in network for network in SPECIAL):\n        return False\n", "",
        "model/test_target.py",
    ),
    mutant(
        "signature_without_its_time", "words/signature.py",
        'f"{message_id}.{timestamp}.".encode()', 'f"{message_id}.".encode()',
        "stations/test_webhook.py::test_the_reference_verifier_accepts_the_signature",
    ),
)  # fmt: skip
