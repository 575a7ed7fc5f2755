-- Halts: tenants that stand still. A small table, read whole every two seconds.

-- name: halt_all
SELECT h.tenant_id, t.name, h.kind, h.mode, h.from_at, h.until_at, h.note, h.set_by, h.set_at
  FROM tenant_halt h JOIN tenant t USING (tenant_id)
 WHERE h.lifted_at IS NULL AND (h.until_at IS NULL OR h.until_at > clock())
   AND ($1::integer IS NULL OR h.tenant_id = $1)
 ORDER BY t.name, h.kind

-- name: halt_alone
SELECT halt_alone()

-- name: halt_client_alone
SELECT halt_client_alone($1)

-- name: halt_change
-- One change of a tenant's halts at a time; nothing else waits for this.
SELECT lock_named('halt_change', $1)

-- name: halt_share
SELECT halt_share()

-- name: halt_refuse_held
SELECT halt_refuse_held($1)

-- name: halt_refuse_killed
SELECT halt_refuse_killed($1)

-- name: halt_list_halted
SELECT unnest(tenants_held())

-- name: halt_put
-- A window without a beginning begins now; one that is over gives no row.
INSERT INTO tenant_halt (tenant_id, kind, mode, from_at, until_at, note, set_by, set_at)
SELECT $1, $2, $3, coalesce($4::timestamptz, clock()), $5::timestamptz, $6, $7, clock()
 WHERE $5 IS NULL OR $5 > greatest($4, clock())
ON CONFLICT (tenant_id, kind) DO UPDATE
   SET mode = excluded.mode, from_at = excluded.from_at, until_at = excluded.until_at,
       note = excluded.note, set_by = excluded.set_by, set_at = excluded.set_at,
       lifted_at = NULL
RETURNING from_at

-- name: halt_lift
UPDATE tenant_halt SET lifted_at = clock() WHERE tenant_id = $1 AND kind = $2

-- name: halt_list_ended
-- Halts that have ended, by a person or by the clock, and whose timers are not yet back: of live
-- tenants, or ($1) of one in test mode.
SELECT h.tenant_id, h.kind, h.lifted_at IS NULL AS by_clock
  FROM tenant_halt h JOIN tenant t USING (tenant_id)
 WHERE (h.lifted_at IS NOT NULL OR h.until_at <= clock())
   AND CASE WHEN $1::integer IS NULL THEN NOT t.test ELSE h.tenant_id = $1 END

-- name: halt_next_end
-- When the next halt of a tenant ends by the clock; long ago if a person has lifted it.
SELECT min(CASE WHEN lifted_at IS NOT NULL THEN 'epoch' ELSE until_at END) FROM tenant_halt
 WHERE tenant_id = $1

-- name: halt_set_aside
-- Due payments of a halted tenant leave the lane that settlers read.
UPDATE timer t SET lane_id = $3
  FROM unnest($1::smallint[], $2::uuid[]) AS held (bucket, subject)
 WHERE t.bucket = held.bucket AND t.subject = held.subject

-- name: halt_return
-- Locked ones are skipped: they come back the next time.
WITH free AS MATERIALIZED (
    SELECT t.subject FROM timer t
     WHERE t.bucket = $1 AND t.lane_id = $3 AND t.tenant_id = $2
       AND t.tenant_id <> ALL ((SELECT tenants_held())::integer[])
     ORDER BY t.subject FOR NO KEY UPDATE SKIP LOCKED)
UPDATE timer t SET lane_id = $4 FROM free WHERE t.bucket = $1 AND t.subject = free.subject

-- name: halt_left
-- Whether something of a tenant that need not stand still any more has not come back.
SELECT EXISTS (SELECT FROM timer t
                WHERE t.bucket = $1 AND t.lane_id = $3 AND t.tenant_id = $2
                  AND t.tenant_id <> ALL ((SELECT tenants_held())::integer[]))

-- name: halt_delete
DELETE FROM tenant_halt
 WHERE tenant_id = $1 AND kind = $2 AND (lifted_at IS NOT NULL OR until_at <= clock())
RETURNING tenant_id
