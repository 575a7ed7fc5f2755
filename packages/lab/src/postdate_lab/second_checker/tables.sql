-- What follows from the lines of a tenant's history; `line` and the rows that were left are loaded
-- before. Times are whole microseconds in rows, and seconds since the beginning in the history.

-- Both sides of each transfer.
CREATE TABLE entry AS
SELECT from_account AS account_id, -amount AS amount, from_balance AS balance,
       from_version AS version
  FROM transfer
 UNION ALL
SELECT to_account, amount, to_balance, to_version FROM transfer;

-- The first time that each operation was asked for.
CREATE TABLE asked AS
SELECT who, op, n, subject, min(seq) AS seq, at, data
  FROM line WHERE type = 'invoke' GROUP BY who, op, n, subject;

CREATE INDEX asked_of ON asked (who, op, n, subject);

-- Acknowledged operations, with what was asked for.
CREATE TABLE answered AS
SELECT line.seq, line.op, line.n, line.subject, line.at, line.data,
       asked.at AS asked_at, asked.data AS asked
  FROM line JOIN asked USING (who, op, n, subject) WHERE line.type = 'ok';

CREATE INDEX answered_op ON answered (op);

-- A payment's key counts from the first call that used it, whatever came of that call.
CREATE TABLE key_asked AS
SELECT data ->> 'key' AS key, min(at) AS at
  FROM line WHERE type = 'invoke' AND op IN ('payment.schedule', 'payment.repeat') GROUP BY 1;

CREATE TABLE accepted (
  noun TEXT, subject TEXT, key TEXT, asked_at REAL, delay REAL, holds INTEGER, wall REAL);

INSERT INTO accepted
SELECT 'payment', answered.data -> 'answer' ->> 'payment_id', key_asked.key, key_asked.at,
       asked ->> 'delay', 0, NULL
  FROM answered JOIN key_asked ON key_asked.key = asked ->> 'key'
 WHERE op IN ('payment.schedule', 'payment.repeat');

INSERT INTO accepted
SELECT 'job', data -> 'answer' ->> 'job_id', asked ->> 'key', asked_at, asked ->> 'delay',
       asked ->> 'on_unknown' = 'hold', NULL
  FROM answered WHERE op = 'job.create';

INSERT INTO accepted
SELECT replace(op, '.batch', ''), id.value, (asked ->> 'keys') || id.key, asked_at, delay.value,
       EXISTS (SELECT 1 FROM json_each(asked -> 'held') AS held WHERE held.value = id.key),
       asked ->> 'wall'
  FROM answered
  JOIN json_each(data -> 'answer' -> 'ids') AS id
  JOIN json_each(asked -> 'delays') AS delay ON delay.key = id.key
 WHERE op IN ('job.batch', 'payment.batch') AND id.value IS NOT NULL;

CREATE INDEX accepted_subject ON accepted (subject);

-- How much earlier than asked for something may begin: while the database's clock has leapt, nodes
-- carry the time on themselves, and tell it every two seconds at the latest.
ALTER TABLE accepted ADD COLUMN slack REAL NOT NULL DEFAULT 0.02;

UPDATE accepted SET slack = 2.0
 WHERE EXISTS (SELECT 1 FROM fault
                WHERE name = 'clock' AND asked_at BETWEEN begins - 30 AND ends + 30);

-- Everything whose time was changed: nothing is said about when it may begin.
CREATE TABLE moved AS
SELECT DISTINCT subject FROM line
 WHERE type = 'invoke' AND op IN ('payment.reschedule', 'job.reschedule', 'job.run_now');

CREATE TABLE arrival AS
SELECT seq, at, data ->> 'id' AS job_id, data ->> 'token' AS token,
       data ->> 'behaviour' AS behaviour, data ->> 'body' AS body
  FROM line WHERE op = 'arrival' AND data ->> 'behaviour' <> 'events';

CREATE INDEX arrival_job ON arrival (job_id);

-- What a subscriber was told. A body that was cut off where it is long still begins like JSON.
CREATE TABLE told AS
SELECT min(at) AS at, member(data ->> 'body', 'subject') AS subject
  FROM line
 WHERE op = 'arrival' AND data ->> 'behaviour' = 'events'
   AND member(data ->> 'body', 'type') = 'payment.completed'
 GROUP BY 2;

CREATE TABLE claim AS
SELECT answered.seq, lease.value ->> 'job_id' AS job_id, lease.value ->> 'token' AS token,
       asked_at, at AS answered_at
  FROM answered JOIN json_each(data -> 'answer' -> 'leases') AS lease WHERE op = 'lease.claim';

CREATE INDEX claim_job ON claim (job_id);

CREATE INDEX outcome_subject ON outcome (subject);

CREATE INDEX transfer_payment ON transfer (payment_id);

CREATE INDEX payment_id ON payment (payment_id);

CREATE INDEX job_id ON job (job_id);

CREATE VIEW begun AS
SELECT subject, due_at, started_at FROM outcome WHERE started_at IS NOT NULL
UNION ALL
SELECT subject, due_at, started_at FROM attempt WHERE started_at IS NOT NULL;
