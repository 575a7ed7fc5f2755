"""Bugs of claims, leases, tokens, permits, marks and records."""

from mutants.mutant import mutant

LEASE = "lease/lease.sql"
CLAIMER = "worker/claimer.py"
RECORDER = "worker/recorder.py"
RUNNER = "worker/runner.py"
MARK = "runtime/low_water.py"
TOKENS = "stations/test_worker_tokens.py"
WORKER = "stations/test_worker.py"
FAULTS = "stations/test_worker_faults.py"
LOCKED_TIMER = "faults/test_locked_timer.py"
LIMITS = "stations/test_worker_limits.py"
CLAIMS = "stations/test_claims.py"
PROGRESS = "flows/test_progress.py"
CANCEL = "flows/test_cancel_running.py"
MANY = "flows/test_cancel_many.py"
ANSWERS = "flows/test_webhook_answers.py"
MARKS = "test_a_mark_trails_a_little_and_once_a_second_as_far_as_a_transaction_lasts"

UNIQUE = "stations/test_unique.py"
UNIQUE_FLOWS = "flows/test_unique_jobs.py"

MUTANTS = (
    mutant(
        "priority_ignored", "worker/ready_queue.py",
        "            lane_bucket = min(ready, key=LaneBucket.order_at)\n", "            pass\n",
        "model/test_ready_queue.py::test_the_most_urgent_row_of_a_lane_is_next",
    ),
    mutant(
        "waiting_raises_nothing", "lane/spec.py",
        "    return due_at + priority * PRIORITY_STEP\n",
        "    return due_at + priority * 1000 * PRIORITY_STEP\n",
        "model/test_ready_queue.py::test_waiting_raises_a_row_by_a_step_each_minute",
    ),
    mutant(
        "unique_key_not_locked", "job/accept/unique.py",
        "    locked = await job_unique.lock(connection, slots)\n",
        "    locked = dict.fromkeys(slots)\n",
        f"{UNIQUE_FLOWS}::test_keep_answers_the_waiting_job",
    ),
    mutant(
        "unique_key_touches_a_running_job", "job/accept/unique.py",
        "if row.claimed_at is None and (row.timer_due_at", "if (row.timer_due_at",
        f"{UNIQUE_FLOWS}::test_a_running_job_is_not_touched",
    ),
    mutant(
        "debounce_without_end", "job/accept/unique.py",
        "effective = max(min(asked.effective_at, last), now)",
        "effective = max(asked.effective_at, now)",
        f"{UNIQUE_FLOWS}::test_debounce_moves_the_due_time_up_to_the_longest_delay",
    ),
    mutant(
        "unique_row_outlives_its_job", "database/functions/job.sql",
        "    PERFORM job_unique_forget(in_bucket, in_tenant, ids);\n", "",
        f"{UNIQUE}::test_nothing_is_kept_of_a_key_whose_job_was_pruned",
    ),
    mutant(
        "claim_not_waited_for_under_a_unique_key", "job/accept/unique.py",
        "        await job_change.lock(connection, tenant_id, bucket, job_ids)\n", "",
        f"{UNIQUE}::test_a_claim_under_way_is_waited_for",
    ),
    mutant(
        "merged_request_makes_another_under_its_key", "job/accept/group.py",
        "        if made.found is not None:\n            return kept_under(", "        if False:\n"
        "            return kept_under(",
        f"{UNIQUE_FLOWS}::test_the_same_key_and_body_get_the_stored_answer",
    ),
    mutant(
        "end_without_token", "database/functions/lease.sql",
        "           AND t.token = coalesce(e.token, first_token)\n", "",
        f"{WORKER}::test_a_stale_token_changes_nothing",
    ),
    mutant(
        "move_without_token", LEASE,
        "AND t.token = m.token AND t.claimed_at IS NOT NULL\nRETURNING",
        "AND t.claimed_at IS NOT NULL\nRETURNING",
        f"{TOKENS}::test_a_lost_claim_cannot_give_back_the_lease_of_another_node",
    ),
    mutant(
        "renew_without_token", LEASE,
        """t.token = h.token
     WHERE t.claimed_at IS NOT NULL),
free""",
        """t.token <= h.token + 9e15
     WHERE t.claimed_at IS NOT NULL),
free""",
        "stations/test_claims.py::test_an_old_token_renews_nothing",
    ),
    mutant(
        "token_reused", LEASE,
        """token = greatest((SELECT claim_token($8::integer)), t.token + 1 + $8),
           attempt""",
        """token = t.token + 1,
           attempt""",
        f"{TOKENS}::test_a_claim_that_was_rolled_back_shares_no_token_with_the_next",
    ),
    mutant(
        "token_by_the_clock_alone", LEASE,
        """token = greatest((SELECT claim_token($8::integer)), t.token + 1 + $8),
           attempt""",
        """token = (SELECT claim_token($8::integer)),
           attempt""",
        f"{TOKENS}::test_a_token_rises_although_the_clock_goes_back",
    ),
    mutant(
        "lost_lease_not_counted", LEASE,
        "attempt = t.attempt + (t.claimed_at IS NOT NULL)::integer",
        "attempt = t.attempt",
        f"{WORKER}::test_a_lost_lease_is_written_down_and_the_job_runs_again",
    ),
    mutant(
        "claimed_before_due", LEASE,
        """t.due_at <= clock()
       AND $7 <> ALL""",
        """t.due_at <= clock() + interval '1 hour'
       AND $7 <> ALL""",
        "stations/test_claims.py::test_what_is_due_takes_nothing_along_that_is_not",
    ),
    mutant(
        "halt_not_seen_by_workers", LEASE,
        "       AND $7 <> ALL ((SELECT tenants_held())::integer[])\n", "",
        "stations/test_halts.py::test_jobs_of_a_killed_tenant_are_not_claimed",
    ),
    mutant(
        "place_left_busy", CLAIMER,
        "self.lane_buckets.plan(lane_bucket, at)", "pass",
        "faults/test_simulation.py::test_every_history_ends_well",
    ),
    mutant(
        "room_kept_by_a_broken_claim", CLAIMER,
        """if claim.in_doubt else []
            claim.trim()
""",
        """if claim.in_doubt else []
""",
        "faults/test_simulation.py::test_every_history_ends_well",
    ),
    mutant(
        "claim_in_doubt_forgotten", CLAIMER,
        "_returned(claim.executions) if claim.in_doubt else []", "[]",
        f"{FAULTS}::test_everything_runs_once_wherever_a_call_breaks",
    ),
    mutant(
        "permit_leaked", "worker/limited_jobs.py",
        "            line.acquiring.refund(line.acquiring.count)\n", "",
        f"{CLAIMS}::test_permits_taken_before_a_limit_that_cannot_be_asked_are_given_back",
    ),
    mutant(
        "permit_kept_after_landing", "worker/claimed_job.py",
        "            permits.end(self.ended_at - self.started_at) if", "            None if",
        f"{LIMITS}::test_a_lanes_limit_holds_across_workers",
    ),
    mutant(
        "others_permits_not_counted", "lane/store/permit.sql",
        "AND p.scope = $2 AND p.holder <> $3\n", "AND p.scope = $2 AND p.holder = $3\n",
        f"{LIMITS}::test_a_lanes_limit_holds_across_workers",
    ),
    mutant(
        "slots_of_the_living_run_out", "lane/store/permit.sql",
        "AND (p.expires_at > clock() OR EXISTS", "AND (p.expires_at > clock() AND EXISTS",
        f"{LOCKED_TIMER}::test_a_limit_holds_though_a_stranger_keeps_its_slots_from_being_renewed",
    ),
    mutant(
        "sweep_waits_for_a_stranger", "lane/store/permit.sql",
        "       FOR UPDATE SKIP LOCKED)", "       FOR UPDATE)",
        f"{LOCKED_TIMER}::test_a_limit_holds_though_a_stranger_keeps_its_slots_from_being_renewed",
    ),
    mutant(
        "claim_in_vain_repeated_at_once", CLAIMER,
        "now + lane_bucket.rest_seconds()", "now",
        f"{LOCKED_TIMER}::test_a_timer_that_a_stranger_holds_is_left_alone_for_longer_and_longer",
    ),
    mutant(
        "dead_permits_count", "lane/store/permit.sql",
        "AND (p.expires_at > clock() OR EXISTS", "AND (true OR EXISTS",
        f"{LIMITS}::test_the_permits_of_the_dead_run_out",
    ),
    mutant(
        "mark_too_eager", MARK,
        "max(self.floor, min(self.lowest, self.seen_at - margin))", "self.seen_at",
        f"{CLAIMS}::{MARKS}",
    ),
    mutant(
        "mark_never_looks_wide", MARK,
        "self.wide_at, margin = now + WIDE_SECONDS, max(margin, WIDE_MARGIN)", "self.wide_at = now",
        f"{CLAIMS}::{MARKS}",
    ),
    mutant(
        "verdict_forgotten_when_broken_off", RECORDER,
        "            self._waiting.extendleft(self._unfinished(group))\n",
        "            pass\n",
        f"{FAULTS}::test_everything_runs_once_wherever_a_call_breaks",
    ),
    mutant(
        "drain_ends_too_late", RECORDER,
        """            self._active -= 1
            # Verdicts of""",
        """            later = asyncio.get_running_loop().call_soon
            later(setattr, self, "_active", self._active - 1)
            # Verdicts of""",
        "stations/test_recorder.py",
    ),
    mutant(
        "locked_timer_taken_for_written", RECORDER,
        "        if not locked:\n", "        if True:\n",
        "faults/test_locked_timer.py",
    ),
    mutant(
        "second_verdict_counts", RECORDER,
        "            return  # it has one verdict: the first", "            pass",
        f"{CLAIMS}::test_a_flight_has_one_verdict_the_first",
    ),
    mutant(
        "starts_on_a_lease_that_ran_out", "worker/claimed_job.py",
        "return self.stopped is None and self.holds_lease(now)",
        "return self.stopped is None",
        f"{CLAIMS}::test_nothing_starts_on_a_lease_that_may_have_run_out",
    ),
    mutant(
        "claims_as_much_while_leases_run_out", RUNNER,
        "            self._capacity.shrink(len(self._jobs))\n", "",
        f"{LIMITS}::test_a_worker_claims_less_while_its_leases_run_out_and_more_again_after",
    ),
    mutant(
        "lost_lease_goes_on", RUNNER,
        "                job.stop(TAKEN)\n", "                pass\n",
        f"{WORKER}::test_a_handler_is_stopped_when_its_job_is_taken_away",
    ),
    mutant(
        "doubt_tried_again", "job/spec/verdict.py",
        """            if facts.policy.on_unknown == "hold":
                return _again(outcome, None, "UNKNOWN")
""",
        "",
        f"{WORKER}::test_doubt_is_held_for_a_person_when_the_policy_says_so",
    ),
    mutant(
        "lost_worker_tried_again_on_hold", "job/spec/verdict.py",
        'if facts.lost and policy.on_unknown == "hold":', "if False:",
        f"{WORKER}::test_a_lost_lease_is_doubt_when_the_policy_holds",
    ),
    mutant(
        "one_attempt_too_many", "job/spec/verdict.py",
        "if facts.attempt > policy.max_attempts:", "if facts.attempt > policy.max_attempts + 1:",
        f"{WORKER}::test_a_job_that_kills_its_workers_ends_in_the_dead_letters",
    ),
    mutant(
        "pull_completes_with_an_old_token", "lease/lease.sql",
        "SELECT held.subject, renewed.due_at FROM held LEFT JOIN renewed",
        "SELECT held.subject, clock() AS due_at FROM held LEFT JOIN renewed",
        "faults/test_locked_timer.py", "flows/test_leases.py",
    ),
    mutant(
        "checkpoint_lost", "job/store/progress.sql",
        "checkpoint = coalesce(excluded.checkpoint, p.checkpoint)",
        "checkpoint = excluded.checkpoint",
        f"{PROGRESS}::test_the_next_attempt_gets_the_last_checkpoint",
    ),
    mutant(
        "checkpoint_only_after_a_counted_attempt", LEASE,
        "t.token + t.attempt > 0 AS again", "t.attempt > 0 AS again",
        f"{PROGRESS}::test_the_next_attempt_gets_the_last_checkpoint",
    ),
    mutant(
        "stale_progress_accepted", "lease/change/renewal.py",
        "            found, until = await self._held(connection, held)\n",
        "            [found] = (await lease.find(\n"
        "                connection, bucket_of(held.job_id), [held.job_id]\n"
        "            )).values()\n"
        "            until = found.claimed_at\n",
        f"{PROGRESS}::test_a_stale_token_reports_nothing",
    ),
    mutant(
        "cancel_never_ends", "worker/expirer.py",
        "        await self._end_cancelled()\n", "",
        f"{CANCEL}::test_at_the_deadline_the_lease_is_taken_away",
    ),
    mutant(
        "cancelled_job_claimed_again", "job/store/execution.py",
        "    if again:\n        gone =", "    if False:\n        gone =",
        f"{CANCEL}::test_a_lost_worker_does_not_make_a_cancelled_job_run_again",
    ),
    mutant(
        "cancelled_job_retried", "job/store/execution.py",
        "        await job_cancel.end_requested(connection, bucket, subjects)\n", "        pass\n",
        f"{CANCEL}::test_a_failure_after_a_cancel_ends_the_job_as_cancelled",
    ),
    mutant(
        "bulk_cancel_takes_at_once", "job/change/bulk.py",
        "order = CancelOrder(actor, seconds, _with_reason(reason))",
        "order = CancelOrder(actor, 0.0, _with_reason(reason))",
        f"{MANY}::test_a_bulk_call_asks_the_workers",
        f"{MANY}::test_a_change_set_asks_the_workers_and_does_not_undo_that",
    ),
    mutant(
        "overlap_takes_at_once", "schedule/change/occurrence.py",
        'CancelOrder(SYSTEM, seconds, {"reason": "overlap"})',
        'CancelOrder(SYSTEM, 0.0, {"reason": "overlap"})',
        f"{MANY}::test_the_next_occurrence_asks_the_worker_of_the_one_before",
    ),
    mutant(
        "own_transaction_takes_at_once", "database/functions/client_cancel.sql",
        "AND may_take > 0\n", "AND false\n",
        f"{MANY}::test_a_commit_of_ones_own_asks_the_worker",
    ),
    mutant(
        "test_clock_passes_a_deadline", "test_clock/change/advance.py",
        "            (Rank.CANCEL, await job_cancel.next_deadline(connection, self.tenant_id)),\n",
        "",
        f"{MANY}::test_the_clock_of_a_tenant_in_test_mode_reaches_the_deadline",
    ),
    mutant(
        "begin_of_an_answer_is_a_result", "delivery/verdict.py",
        "    if len(body) > RESULT_BYTES:\n", "    if False:\n",
        f"{ANSWERS}::test_an_answer_becomes_the_result_if_it_is_json",
    ),
    mutant(
        "answer_kept_in_clear", "delivery/webhook.py",
        'if self._settings.get("job.encryption", delivery.tenant_id) != "on":', "if True:",
        f"{ANSWERS}::test_an_answer_is_encrypted_where_payloads_are",
    ),
    mutant(
        "cancel_url_called_once", "worker/cancel_caller.py",
        "        if heard:\n", "        if True:\n",
        f"{ANSWERS}::test_a_cancel_url_is_called_until_it_answers",
    ),
    mutant(
        "cancel_url_never_settled", "worker/cancel_caller.py",
        "        if heard:\n", "        if False:\n",
        f"{ANSWERS}::test_a_cancel_url_is_called_until_it_answers",
    ),
    mutant(
        "deadline_of_a_cancel_put_off", "database/functions/job.sql",
        "least(p.cancel_deadline, excluded.cancel_deadline)", "excluded.cancel_deadline",
        f"{CANCEL}::test_a_worker_hears_of_a_cancel_at_its_next_renewal",
    ),
    mutant(
        "report_dropped_by_a_busy_server", "client/errors.py",
        "error.status >= SERVER_ERROR or error.status == TOO_MANY_REQUESTS", "False",
        "flows/test_sdk_worker_rules.py"
        "::test_an_end_that_the_server_could_not_record_is_reported_again",
    ),
    mutant(
        "renewal_refused_by_a_report", "lease/change/renewal.py",
        "        await lease.wait(connection, bucket, held.job_id)\n", "",
        "flows/test_leases.py"
        "::test_reports_and_renewals_of_one_lease_at_once_wait_for_each_other",
    ),
    mutant(
        "step_repeated", "client/running_job.py",
        "        return name in self._steps\n", "        return False\n",
        "flows/test_sdk_steps.py::test_a_plain_function_does_each_step_once_over_its_attempts",
    ),
    mutant(
        "step_not_recorded", "client/running_job.py",
        "            await self._insist(checkpoint)\n", "            pass\n",
        "flows/test_sdk_steps.py::test_a_plain_function_does_each_step_once_over_its_attempts",
    ),
    mutant(
        "newest_lines_dropped", "lease/change/renewal.py",
        "reversed(lines[-LOG_LINES:])", "reversed(lines[:LOG_LINES])",
        f"{PROGRESS}::test_the_log_of_an_attempt_drops_its_oldest_lines",
    ),
)  # fmt: skip
