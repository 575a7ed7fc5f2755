-- Wake-ups: hints to other processes that something is due soon, never in a business transaction.

-- name: wakeup_send
SELECT pg_notify(name, $1) FROM wakeup_channel

-- name: wakeup_channel
SELECT name FROM wakeup_channel
