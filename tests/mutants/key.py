"""Bugs of limits and turns for each key of a lane."""

from mutants.mutant import mutant

LEASE = "lease/lease.sql"
KEY_ROTATION = "stations/test_key_rotation.py"
KEY_LIMITS = "flows/test_key_limits.py"
KEYS = "database/functions/lane_key.sql"

MUTANTS = (
    mutant(
        "key_limit_exceeded_by_one",
        KEYS,
        "max_running - s.claimed)) END AS room,",
        "max_running - s.claimed + 1)) END AS room,",
        f"{KEY_ROTATION}::test_a_key_runs_no_more_than_its_limit",
    ),
    mutant(
        "lost_lease_frees_its_slot",
        KEYS,
        "WHERE t.bucket = of_bucket AND t.key_id = w.key_id AND t.claimed_at IS NOT NULL\n",
        "WHERE t.bucket = of_bucket AND t.key_id = w.key_id AND t.claimed_at IS NOT NULL\n"
        "                  AND (t.due_at > now OR w.seeks)\n",
        f"{KEY_ROTATION}::test_a_lost_lease_keeps_its_slot_until_it_is_taken_over",
    ),
    mutant(
        "key_limit_unknown_to_a_node_not_obeyed",
        LEASE,
        "       AND (NOT $9::boolean OR (SELECT l.per_key IS NULL FROM lane l "
        "WHERE l.lane_id = $2))\n",
        "       AND (NOT $9::boolean OR true)\n",
        f"{KEY_ROTATION}::test_a_limit_that_is_new_holds_at_once",
    ),
    mutant(
        "key_rate_not_counted",
        "job/store/key_claim.py",
        "        await lane_key.spend(connection, bucket, lane.lane_id, counts)\n",
        "        pass\n",
        f"{KEY_ROTATION}::test_a_rate_holds_for_each_key",
    ),
    mutant(
        "key_weight_ignored",
        "runtime/key_rotation.py",
        "weights = [self.weights.get(state.key_id, 1) for state in states]",
        "weights = [1 for state in states]",
        f"{KEY_ROTATION}::test_keys_take_turns_by_weight",
    ),
    mutant(
        "end_of_a_job_not_told_to_its_key",
        "lease/change/report.py",
        "            self._freed(known.leases[job_id])\n",
        "            pass\n",
        f"{KEY_LIMITS}::test_workers_over_http_obey_the_limit_of_each_key",
    ),
)
