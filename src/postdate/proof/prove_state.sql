-- Proofs that rows are as the newest sealed event about them left them. Arguments as in prove.sql;
-- $4 is the first id of which no event was detached. Each gives the noun of the row first.

-- name: prove_state_is_as_sealed
-- Revisions and attempts go with their job when it is pruned; that the job is gone is the chain's
-- to witness. Change sets are forgotten as change_set_forget says, by their tenant's clock. The
-- newest event is that of the latest time; only where the row is not as that one left it, the order
-- of the chain is asked, which differs where the clock was set back.
SELECT CASE WHEN noun IN ('kill', 'freeze') THEN 'halt' ELSE noun END AS noun, tenant_id,
       coalesce(data ->> 'account_id', data ->> 'lane', data ->> 'calendar', data ->> 'name',
                CASE noun WHEN 'tenant' THEN data ->> 'tenant' WHEN 'kill' THEN 'kill'
                          WHEN 'freeze' THEN 'freeze' END, subject::text) AS subject,
       CASE WHEN nothing IN (now, state)
            THEN CASE WHEN now = nothing THEN format('it is gone; the last event is %s', type)
                      ELSE format('it is there; the last event is %s', type) END
            ELSE format('it is not as %s left it', type) END AS detail
  FROM (SELECT *, state_now(type, tenant_id, subject, data) AS now, sha256('') AS nothing
          FROM (SELECT DISTINCT ON (bucket, tenant_id, subject, state_noun(type))
                       bucket, state_noun(type) AS noun, tenant_id, subject, type, data, state,
                       time
                  FROM event
                 WHERE state IS NOT NULL AND ($1::integer IS NULL OR tenant_id = $1)
                   AND ($2::smallint[] IS NULL OR bucket = ANY ($2)) AND $4::uuid < $5::uuid
                   AND (state_noun(type) NOT IN ('revision', 'attempt') OR subject >= $4)
                 ORDER BY bucket, tenant_id, subject, state_noun(type), time DESC, event_id DESC)
               AS newest) AS known
 WHERE state <> now
   AND state_last_sealed(bucket, tenant_id, subject, noun) IS DISTINCT FROM now AND NOT (
       now = nothing AND noun IN ('revision', 'attempt') AND NOT EXISTS (
           SELECT FROM job j WHERE j.bucket = bucket_of(known.subject)
              AND j.tenant_id = known.tenant_id AND j.job_id = known.subject)
       AND NOT EXISTS (
           SELECT FROM payment p WHERE p.bucket = bucket_of(known.subject)
              AND p.tenant_id = known.tenant_id AND p.payment_id = known.subject))
   AND NOT (now = nothing AND noun = 'change_set' AND time < coalesce(
            (SELECT c.at FROM test_clock c WHERE c.tenant_id = known.tenant_id), clock())
            - CASE type WHEN 'change_set.created' THEN interval '7 days'
                        ELSE interval '90 days' END)
 ORDER BY tenant_id, noun, subject LIMIT $3

-- name: prove_state_is_recorded
-- The other way round: a row of which no event tells. Rows without a bucket belong to that of their
-- tenant; what was told of them is read bucket by bucket, by the index of states. A database that
-- was restored puts itself into quarantine, before any program could record it.
WITH kept AS (
    SELECT 'account' AS noun, tenant_id, account_id AS name, NULL::uuid AS subject, created_at,
           true AS placed
      FROM account
     WHERE ($1::integer IS NULL OR tenant_id = $1)
       AND ($2::smallint[] IS NULL OR bucket = ANY ($2))
     UNION ALL
    SELECT 'repair', tenant_id, account_id, NULL, repaired_at, true FROM account_repair
     WHERE ($1 IS NULL OR tenant_id = $1) AND ($2 IS NULL OR bucket = ANY ($2))
     UNION ALL
    SELECT 'approval', tenant_id, NULL, payment_id, requested_at, true FROM payment_approval
     WHERE ($1 IS NULL OR tenant_id = $1) AND ($2 IS NULL OR bucket = ANY ($2))
     UNION ALL
    SELECT 'subscription', tenant_id, NULL, subscription_id, created_at, true FROM subscription
     WHERE ($1 IS NULL OR tenant_id = $1) AND ($2 IS NULL OR bucket = ANY ($2))
     UNION ALL
    SELECT 'schedule', tenant_id, NULL, schedule_id, created_at, true FROM schedule
     WHERE ($1 IS NULL OR tenant_id = $1) AND ($2 IS NULL OR bucket = ANY ($2))
     UNION ALL
    SELECT 'change_set', tenant_id, NULL, change_set_id, created_at, true FROM change_set
     WHERE ($1 IS NULL OR tenant_id = $1) AND ($2 IS NULL OR bucket = ANY ($2))
     UNION ALL
    SELECT 'key', tenant_id, NULL, key_id, created_at, true FROM api_key
     WHERE ($1 IS NULL OR tenant_id = $1) AND ($2 IS NULL OR bucket_of(key_id) = ANY ($2))
     UNION ALL
    SELECT 'revision', r.tenant_id, NULL, r.job_id, r.created_at, true
      FROM timer t JOIN job_revision r ON r.bucket = t.bucket AND r.job_id = t.subject
     WHERE t.lane_id >= 16 AND t.revision > 0 AND ($1 IS NULL OR t.tenant_id = $1)
       AND ($2 IS NULL OR t.bucket = ANY ($2))
     UNION ALL
    SELECT each.noun, each.tenant_id, each.name, NULL, each.at, false
      FROM (SELECT 'setting' AS noun, tenant_id, name, changed_at AS at FROM setting
             WHERE name <> 'restore.quarantine'
             UNION ALL SELECT 'destination', tenant_id, name, created_at FROM destination
             UNION ALL SELECT 'calendar', tenant_id, name, changed_at FROM calendar
             UNION ALL SELECT 'role', tenant_id, role_name, bound_at FROM client_role
             UNION ALL SELECT 'receipt_key', 0, key_id, created_at FROM receipt_key
             UNION ALL SELECT 'tenant', tenant_id, NULL, created_at FROM tenant
             UNION ALL SELECT kind, tenant_id, NULL, set_at FROM tenant_halt) AS each
     WHERE ($1 IS NULL OR each.tenant_id = $1)
       AND ($2 IS NULL OR tenant_bucket(each.tenant_id) = ANY ($2))),
told AS MATERIALIZED (
    SELECT tenant_id, subject, state_noun(type) AS noun, coalesce(
           data ->> 'account_id', data ->> 'lane', data ->> 'calendar', data ->> 'name') AS name
      FROM event
     WHERE state IS NOT NULL AND ($1 IS NULL OR tenant_id = $1)
       AND ($2 IS NULL OR bucket = ANY ($2))
     UNION ALL
    SELECT t.tenant_id, v.subject, state_noun(v.type), coalesce(
           v.data ->> 'account_id', v.data ->> 'lane', v.data ->> 'calendar', v.data ->> 'name')
      FROM (SELECT DISTINCT tenant_id FROM kept WHERE NOT placed AND $2 IS NOT NULL) AS t
     CROSS JOIN generate_series(0, 63) AS buckets (bucket)
     CROSS JOIN LATERAL (
           SELECT * FROM event v
            WHERE v.bucket = buckets.bucket AND v.tenant_id = t.tenant_id AND v.state IS NOT NULL
           OFFSET 0) AS v
     WHERE v.bucket <> ALL ($2))
SELECT CASE WHEN k.noun IN ('kill', 'freeze') THEN 'halt' ELSE k.noun END AS noun, k.tenant_id,
       coalesce(k.name, k.subject::text, k.noun) AS subject,
       'no sealed event tells of it' AS detail
  FROM kept k
 WHERE k.created_at >= uuid_instant($4::uuid) AND $5::uuid IS NOT NULL
   AND NOT EXISTS (SELECT FROM told t WHERE t.noun = k.noun AND t.tenant_id = k.tenant_id
                      AND t.name = k.name)
   AND NOT EXISTS (SELECT FROM told t WHERE t.noun = k.noun AND t.tenant_id = k.tenant_id
                      AND t.subject = k.subject)
   AND NOT EXISTS (SELECT FROM told t WHERE t.noun = k.noun AND t.tenant_id = k.tenant_id
                      AND k.noun IN ('kill', 'freeze', 'tenant'))
 ORDER BY k.tenant_id, k.noun, 3 LIMIT $3

-- name: prove_state_subscription_position
-- A subscription stands within its tenant's chain. One that rests has nothing left to send: the
-- sealer wakes it for the next event that it may want.
SELECT s.tenant_id, s.subscription_id::text AS subject,
       CASE WHEN s.position > coalesce(c.position, 0)
            THEN format('it stands at %s, the chain ends at %s', s.position,
                        coalesce(c.position, 0))
            ELSE format('it rests at %s, but event %s waits for it', s.position, w.position) END
       AS detail
  FROM subscription s
  LEFT JOIN chain c ON c.bucket = tenant_bucket(s.tenant_id) AND c.tenant_id = s.tenant_id
  LEFT JOIN timer t ON t.bucket = s.bucket AND t.subject = s.subscription_id
  LEFT JOIN LATERAL (
       SELECT k.position + one.place - 1 AS position FROM seal k
        CROSS JOIN LATERAL unnest(k.kinds, k.subjects)
                   WITH ORDINALITY AS one (kind, subject, place)
        WHERE k.bucket = tenant_bucket(s.tenant_id) AND k.tenant_id = s.tenant_id
          AND k.position + cardinality(k.kinds) > s.position
          AND k.position + one.place - 1 > s.position
          AND k.types[one.kind] LIKE ANY (s.patterns)
          AND t.subject IS NULL AND s.paused_at IS NULL AND s.accounts IS NULL
        ORDER BY 1 LIMIT 1) AS w ON true
 WHERE ($1::integer IS NULL OR s.tenant_id = $1)
   AND ($2::smallint[] IS NULL OR s.bucket = ANY ($2))
   AND $4::uuid < $5::uuid AND (s.position > coalesce(c.position, 0) OR w.position IS NOT NULL)
 ORDER BY s.subscription_id LIMIT $3
