-- Each query finds what must not be, as a subject and a reason. `-- check:` names the invariant.

-- check: I1
SELECT transfer_id, 'it is there ' || count(*) || ' times, and moves ' || amount || ' from '
       || from_account || ' to ' || to_account
  FROM transfer GROUP BY transfer_id
HAVING count(*) <> 1 OR amount < 1 OR typeof(amount) <> 'integer' OR from_account = to_account;

-- check: I1
SELECT 'ledger', 'all balances sum to ' || sum(balance) FROM account HAVING sum(balance) <> 0;

-- check: I2
SELECT account_id, 'entry ' || version || ' says ' || balance || ', the sum is ' || total
  FROM (SELECT *, sum(amount) OVER book AS total, row_number() OVER book AS place
          FROM entry WINDOW book AS (PARTITION BY account_id ORDER BY version))
 WHERE balance <> total OR version <> place;

-- check: I2
SELECT account.account_id, 'it has ' || account.balance || ', its entries ' || total(amount)
  FROM account LEFT JOIN entry USING (account_id)
 GROUP BY account.account_id
HAVING account.balance <> total(amount) OR account.version <> count(entry.account_id);

-- check: I2
SELECT account_id, held || ' is held, its open payments hold ' || total(amount)
  FROM (SELECT account_id, account.held AS held, open.amount AS amount
          FROM account
          LEFT JOIN (SELECT payment.* FROM payment JOIN timer ON subject = payment_id WHERE hold)
               AS open ON open.from_account = account_id)
 GROUP BY account_id HAVING held <> total(amount);

-- check: I2
SELECT account_id, 'its balance fell to ' || min(entry.balance) || ', below its floor'
  FROM entry JOIN account USING (account_id)
 WHERE floor IS NOT NULL AND entry.balance < floor GROUP BY account_id;

-- check: I2
SELECT account_id, (balance - held) || ' is available, below its floor'
  FROM account WHERE floor IS NOT NULL AND balance - held < floor;

-- check: I3
SELECT DISTINCT subject, 'this acknowledged ' || noun || ' is not there'
  FROM accepted
 WHERE CASE noun WHEN 'job' THEN subject NOT IN (SELECT job_id FROM job)
                 ELSE subject NOT IN (SELECT payment_id FROM payment) END;

-- check: I3
SELECT id, 'it has not ended'
  FROM (SELECT payment_id AS id FROM payment UNION ALL SELECT job_id FROM job)
 WHERE id NOT IN (SELECT subject FROM outcome);

-- check: I3
SELECT subject, 'it has ended and still has a timer'
  FROM timer JOIN outcome USING (subject) WHERE lane_id NOT IN (1, 2);

-- check: I4
SELECT key, 'the key has ' || count(DISTINCT subject) || ' payments'
  FROM accepted WHERE noun = 'payment' GROUP BY key HAVING count(DISTINCT subject) > 1;

-- check: I4
SELECT 'payments', made || ' payments for ' || keys || ' keys'
  FROM (SELECT count(*) AS made FROM payment WHERE schedule_id IS NULL),
       (SELECT (SELECT count(*) FROM key_asked)
             + (SELECT coalesce(sum(size), 0)
                  FROM (SELECT max(json_array_length(data, '$.delays')) AS size
                          FROM asked WHERE op = 'payment.batch' GROUP BY data ->> 'keys')) AS keys)
 WHERE made > keys;

-- check: I4
SELECT payment_id, count(DISTINCT transfer.transfer_id) || ' transfers, it is '
       || coalesce(outcome.status, 'open')
  FROM payment
  LEFT JOIN transfer USING (payment_id)
  LEFT JOIN outcome ON outcome.subject = payment_id
 GROUP BY payment_id
HAVING count(DISTINCT transfer.transfer_id) <> (coalesce(outcome.status, '') = 'COMPLETED');

-- check: I4
SELECT payment_id, 'its transfer does not move its amount from its payer to its payee'
  FROM payment JOIN outcome ON subject = payment_id
 WHERE status = 'COMPLETED'
   AND NOT EXISTS (SELECT 1 FROM transfer
                    WHERE transfer.payment_id = payment.payment_id
                      AND transfer.amount = payment.amount
                      AND transfer.from_account = payment.from_account
                      AND transfer.to_account = payment.to_account);

-- check: I5
SELECT subject, 'began ' || (due_at - started_at) || ' us early'
  FROM begun WHERE started_at < due_at;

-- check: I5
SELECT subject, 'arrived before it was due'
  FROM accepted JOIN (SELECT job_id, min(at) AS at FROM arrival GROUP BY job_id) ON job_id = subject
 WHERE noun = 'job' AND at < asked_at + delay - slack
   AND subject NOT IN (SELECT subject FROM moved);

-- check: I5
SELECT subject, 'its completion was told before it was due'
  FROM told JOIN (SELECT subject, min(asked_at + delay - slack) AS due
                    FROM accepted GROUP BY subject) USING (subject)
 WHERE at < due AND subject NOT IN (SELECT subject FROM moved);

-- check: I5
SELECT subject, 'began before it was due, by the caller''s clock'
  FROM begun JOIN (SELECT subject, min(wall + delay - slack) AS due
                     FROM accepted GROUP BY subject HAVING max(slack) < 1) USING (subject)
 WHERE started_at / 1000000.0 < due AND subject NOT IN (SELECT subject FROM moved);

-- check: I6
SELECT answered.subject, 'its cancel was acknowledged, and it is ' || coalesce(status, 'open')
  FROM answered LEFT JOIN outcome USING (subject)
 WHERE op = 'payment.cancel' AND coalesce(status, '') <> 'CANCELLED';

-- check: I6
SELECT answered.subject, 'it was ' || (data -> 'answer' ->> 'status') || ', and is '
       || coalesce(outcome.status, 'open')
  FROM answered LEFT JOIN outcome USING (subject)
 WHERE op IN ('payment.read', 'job.read')
   AND data -> 'answer' ->> 'status' IN ('COMPLETED', 'FAILED', 'CANCELLED')
   AND data -> 'answer' ->> 'status' <> coalesce(outcome.status, '');

-- check: I6
SELECT subject, 'it has ended ' || count(*) || ' times'
  FROM outcome GROUP BY subject HAVING count(*) > 1;

-- check: I6
SELECT subject, 'its attempts have a gap or a double'
  FROM attempt GROUP BY subject
HAVING min(attempt) <> 1 OR max(attempt) <> count(*) OR count(DISTINCT attempt) <> count(*);

-- check: I6
SELECT DISTINCT later.job_id, 'token ' || later.token || ' after ' || earlier.token
  FROM claim AS earlier JOIN claim AS later USING (job_id)
 WHERE later.asked_at >= earlier.answered_at AND later.seq > earlier.seq
   AND later.token <= earlier.token;

-- check: I6
SELECT job_id, 'token ' || token || ' was given ' || count(*) || ' times'
  FROM claim GROUP BY job_id, token HAVING count(*) > 1;

-- check: I6
SELECT job_id, 'token ' || token || ' arrived ' || count(*) || ' times'
  FROM arrival GROUP BY job_id, token HAVING count(*) > 1;

-- check: I7
SELECT report.subject, report.op || ' took a token after a newer one was given'
  FROM answered AS report JOIN claim ON claim.job_id = report.subject
 WHERE report.op IN ('lease.complete', 'lease.fail', 'lease.renew')
   AND claim.token > report.data ->> 'token' AND claim.answered_at < report.asked_at;

-- check: I7
SELECT subject, 'completed with ' || count(DISTINCT data ->> 'token') || ' tokens'
  FROM answered WHERE op = 'lease.complete'
 GROUP BY subject HAVING count(DISTINCT data ->> 'token') > 1;

-- check: I8
SELECT job_id, 'complete, and it never arrived'
  FROM job JOIN outcome ON subject = job_id
 WHERE status = 'COMPLETED'
   AND CASE type WHEN 'webhook' THEN job_id NOT IN (SELECT job_id FROM arrival)
                 WHEN 'queue' THEN job_id NOT IN (SELECT id FROM message)
                 WHEN 'worker' THEN job_id NOT IN (
                   SELECT subject FROM line WHERE op = 'lease.complete' AND type = 'invoke')
                 ELSE 0 END;

-- check: I8
SELECT job_id, 'at most once, and it arrived ' || count(*) || ' times'
  FROM arrival
 WHERE job_id IN (SELECT subject FROM accepted WHERE holds)
   AND behaviour IN ('obey', 'slow', 'lie') GROUP BY job_id HAVING count(*) > 1;

-- check: I8
SELECT job_id, came || ' arrivals, ' || faults || ' faults at that time'
  FROM (SELECT job_id, came,
               (SELECT count(*) FROM fault WHERE begins <= last AND ends + 15 >= first) AS faults
          FROM (SELECT job_id, count(*) AS came, min(at) AS first, max(at) AS last
                  FROM arrival WHERE behaviour IN ('obey', 'slow')
                 GROUP BY job_id HAVING count(*) > 1)
         WHERE job_id NOT IN (SELECT subject FROM accepted WHERE holds))
 WHERE came > 1 + faults;

-- check: I8
SELECT body ->> 'n' || '/' || (body ->> 'part'), 'one job arrived as ' || count(DISTINCT job_id)
  FROM arrival
 WHERE job_id NOT IN (SELECT job_id FROM job WHERE schedule_id IS NOT NULL)
 GROUP BY 1 HAVING count(DISTINCT job_id) > 1;

-- check: I9
SELECT schedule_id, 'two occurrences lie ' || (scheduled_for - before) || ' us apart'
  FROM (SELECT schedule_id, scheduled_for,
               lag(scheduled_for) OVER (PARTITION BY schedule_id ORDER BY scheduled_for) AS before
          FROM occurrence WHERE cause = 'rule')
  JOIN answered ON op = 'schedule.create' AND data -> 'answer' ->> 'schedule_id' = schedule_id
 WHERE scheduled_for - before
    <> 1000000 * coalesce(nullif(data -> 'rule' ->> 'every_seconds', 0), 2);

-- check: I9
SELECT schedule_id, 'it is ' || status || ', against its rule'
  FROM occurrence
  JOIN answered ON op = 'schedule.create' AND data -> 'answer' ->> 'schedule_id' = schedule_id
 WHERE cause = 'rule'
   AND (status = 'SKIPPED_BY_OVERLAP' AND data -> 'rule' ->> 'overlap' = 'allow'
        OR status = 'MISSED' AND data ->> 'misfire' = 'fire_all')
 GROUP BY schedule_id, status;

-- check: I9
SELECT id, 'it has ' || count(occurrence.subject) || ' occurrences'
  FROM (SELECT payment_id AS id FROM payment WHERE schedule_id IS NOT NULL
        UNION ALL SELECT job_id FROM job WHERE schedule_id IS NOT NULL)
  LEFT JOIN occurrence ON occurrence.subject = id
 GROUP BY id HAVING count(occurrence.subject) <> 1;

-- check: I9
SELECT subject, 'an occurrence became something that is not there'
  FROM occurrence
 WHERE subject IS NOT NULL AND subject NOT IN (SELECT payment_id FROM payment)
   AND subject NOT IN (SELECT job_id FROM job);

-- check: I10
SELECT op, foreign_text(data, tenant) || ' reached ' || tenant
  FROM line
 WHERE (type IN ('ok', 'fail') OR op = 'arrival') AND foreign_text(data, tenant) <> '';

-- check: I10
SELECT id, foreign_text(body, tenant) || ' is on the queue of ' || tenant
  FROM message WHERE foreign_text(body, tenant) <> '';
