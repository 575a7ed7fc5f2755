-- Decisions are few among many events: a lane is paused once, its jobs run a million times.
-- What merely ran is left out, so that success pays nothing for this index.
CREATE INDEX event_seal_decided ON event_seal (tenant_id, position)
    WHERE type NOT IN ('job.accepted', 'job.completed', 'job.failed', 'job.retried', 'job.unknown',
                       'payment.scheduled', 'payment.completed', 'payment.failed',
                       'payment.retried', 'payment.dead_lettered');
