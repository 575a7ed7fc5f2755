"""A database with a million of each, made with sets: what lists are measured on."""

from typing import Any

from postdate.account.store.account import key_of
from postdate.lane.store.lane import Lane

ACCOUNTS = 1000
SCHEDULES = 1000
RUNS = 40
SPAN_MS = 5 * 24 * 3600 * 1000
"""Ids are spread over the last five days: their partitions exist."""

# An id of our kind: the milliseconds, version 7, the bucket, and the rest from the number.
ID = """(lpad(to_hex((extract(epoch FROM clock()) * 1000)::bigint - n * {span} / {many}), 12, '0')
    || '7' || lpad(to_hex(({bucket})::integer), 3, '0') || 'a'
    || substr(md5({salt} || n::text), 1, 15))::uuid"""

JOBS = """
INSERT INTO job (bucket, tenant_id, job_id, lane_id, due_at, effective_at, created_at, destination,
                 description)
SELECT bucket_of(id), $1, id, $2, due, due, due - interval '1 hour', '{{"type": "worker"}}',
       'report ' || n
  FROM (SELECT n, {id} AS id,
               CASE WHEN n % 10 < 3 THEN clock() + n % 86400 * interval '1 second'
                    ELSE clock() - n % 86400 * interval '1 second' END AS due
          FROM generate_series(1, {many}::bigint) AS n) AS made
"""
TIMERS = """
INSERT INTO timer (bucket, tenant_id, lane_id, subject, due_at)
SELECT bucket, tenant_id, {lane}, {id}, {due}
  FROM {table} WHERE tenant_id = $1 AND {due} > clock()
ON CONFLICT DO NOTHING
"""
OUTCOMES = """
INSERT INTO outcome (bucket, tenant_id, subject, attempt, status, due_at, started_at, finished_at,
                     code)
SELECT bucket, tenant_id, {id}, 1, CASE WHEN failed THEN 'FAILED' ELSE 'COMPLETED' END, due_at,
       due_at, due_at + interval '20 ms', CASE WHEN failed THEN 'http_500' END
  FROM (SELECT *, get_byte(uuid_send({id}), 15) < 3 AS failed FROM {table}
         WHERE tenant_id = $1 AND due_at <= clock()) AS done
"""
ACCOUNTED = """
INSERT INTO account (bucket, tenant_id, account_id, balance)
SELECT bucket, $1, name, 1000000000 FROM unnest($2::text[], $3::smallint[]) AS made (name, bucket)
"""
PAYMENTS = """
INSERT INTO payment (bucket, to_bucket, tenant_id, payment_id, from_account, to_account, amount,
                     due_at, hold, created_at)
SELECT bucket_of(id), to_bucket, $1, id, payer, payee, 1 + n % 100000, due, true, clock()
  FROM (SELECT n, {id} AS id, names[1 + n % {accounts}] AS payer,
               names[1 + (n + 7) % {accounts}] AS payee,
               buckets[1 + (n + 7) % {accounts}] AS to_bucket,
               CASE WHEN n % 10 < 3 THEN clock() + n % 86400 * interval '1 second'
                    ELSE clock() - n % 86400 * interval '1 second' END AS due
          FROM generate_series(1, {many}::bigint) AS n,
               (SELECT $2::text[] AS names, $3::smallint[] AS buckets) AS given) AS made
"""
EVENTS = """
INSERT INTO event (bucket, tenant_id, subject, event_id, type, actor, data)
SELECT bucket_of(id), $1, id, id, CASE WHEN n % 5000 = 0 THEN 'lane.paused' ELSE 'job.retried' END,
       'system', '{{"note": "made"}}'
  FROM (SELECT n, {id} AS id FROM generate_series(1, {many}::bigint) AS n) AS made
"""
SEALS = """
INSERT INTO seal (bucket, tenant_id, seal_id, position, sealed_at, decision, types, kinds, subjects,
                  events, digests, previous, hash)
SELECT tenant_bucket(tenant_id), tenant_id, max(event_id::text)::uuid, min(place), clock(),
       bool_or(type <> 'job.retried'), ARRAY['job.retried', 'lane.paused'],
       array_agg(CASE type WHEN 'job.retried' THEN 1 ELSE 2 END::smallint ORDER BY place),
       array_agg(subject ORDER BY place), array_agg(NULL::uuid ORDER BY place),
       decode(repeat('00', 32 * count(*)::integer), 'hex'), sha256('made'), sha256('made')
  FROM (SELECT *, row_number() OVER (ORDER BY event_id) AS place FROM event
         WHERE tenant_id = $1) AS numbered
 GROUP BY tenant_id, (place - 1) / 1000
"""
SCHEDULED = """
WITH made AS (
    INSERT INTO schedule (bucket, tenant_id, schedule_id, handled)
    SELECT bucket_of(id), $1, id, clock() FROM (
        SELECT {id} AS id FROM generate_series(1, {many}::bigint) AS n) AS ids
    RETURNING bucket, tenant_id, schedule_id),
versions AS (
    INSERT INTO schedule_version (bucket, tenant_id, schedule_id, version, name, rule, policies,
                                  template, actor, template_by, persons)
    SELECT bucket, tenant_id, schedule_id, 1, 'made', '{{"every_seconds": 3600}}', '{{}}',
           '{{"job": {{"destination": {{"type": "worker"}}}}}}', 'system', 'system',
           '{{system}}' FROM made)
INSERT INTO occurrence (bucket, tenant_id, schedule_id, occurrence_id, scheduled_for,
                        nominal_local, due_at, status, cause, version, kind, subject)
SELECT bucket, tenant_id, schedule_id, {run}, clock() - n * interval '1 hour',
       (clock() - n * interval '1 hour')::timestamp, clock() - n * interval '1 hour', 'FIRED',
       'rule', 1, 'job', schedule_id
  FROM made, generate_series(1, {runs}) AS n
"""
ACTIVE = """
INSERT INTO activity (tenant_id, slot, jobs_accepted, jobs_executed, jobs_late)
SELECT $1, to_timestamp(floor(extract(epoch FROM clock()) / 10) * 10) - n * interval '10 seconds',
       1000, 990, '{900, 50, 20, 10, 5, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}'
  FROM generate_series(0, 719) AS n
"""


def _id(bucket: str, salt: str, many: int) -> str:
    return ID.format(bucket=bucket, salt=f"'{salt}'", many=many, span=SPAN_MS)


async def fill(connection: Any, tenant_id: int, lane: Lane, many: int) -> None:
    """Insert so many jobs, payments and events of one tenant, as the owner."""
    names = [f"account-{number:04}" for number in range(ACCOUNTS)]
    buckets = [key_of(tenant_id, name).bucket for name in names]
    own = f"(ARRAY{list(lane.buckets)})[1 + n % {len(lane.buckets)}]"
    steps: list[tuple[str, tuple[Any, ...]]] = [
        (JOBS.format(id=_id(own, "job", many), many=many), (tenant_id, lane.lane_id)),
        (
            TIMERS.format(table="job", id="job_id", due="effective_at", lane="lane_id"),
            (tenant_id,),
        ),
        (OUTCOMES.format(table="job", id="job_id"), (tenant_id,)),
        (ACCOUNTED, (tenant_id, names, buckets)),
        (
            PAYMENTS.format(
                id=_id(f"buckets[1 + n % {ACCOUNTS}]", "payment", many),
                many=many,
                accounts=ACCOUNTS,
            ),
            (tenant_id, names, buckets),
        ),
        (TIMERS.format(table="payment", id="payment_id", due="due_at", lane="0"), (tenant_id,)),
        (OUTCOMES.format(table="payment", id="payment_id"), (tenant_id,)),
        (EVENTS.format(id=_id("n % 64", "event", many), many=many), (tenant_id,)),
        (SEALS, (tenant_id,)),
        ("INSERT INTO chain VALUES (tenant_bucket($1), $1, $2)", (tenant_id, many)),
        (
            SCHEDULED.format(
                id=_id("n % 64", "schedule", SCHEDULES),
                many=SCHEDULES,
                runs=RUNS,
                run=_id("bucket", "run", RUNS).replace(f"* {SPAN_MS} / {RUNS}", "* 3600000"),
            ),
            (tenant_id,),
        ),
        (ACTIVE, (tenant_id,)),
    ]
    for statement, arguments in steps:
        await connection.execute(statement, *arguments, timeout=1800)
    await connection.execute("ANALYZE", timeout=1800)
