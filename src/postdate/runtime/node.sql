-- Nodes that said they are alive.

-- name: node_beat
INSERT INTO node (node_id, name, roles, version, secret_keys, seen_at)
VALUES ($1, $2, $3, $4, $5, clock())
ON CONFLICT (node_id) DO UPDATE SET seen_at = excluded.seen_at

-- name: node_list_live
SELECT node_id, name, roles, version, started_at, seen_at FROM node
 WHERE seen_at > clock() - make_interval(secs => $1) ORDER BY node_id

-- name: node_keys_by_id
SELECT node_id, secret_keys FROM node

-- name: node_keys
-- Who has which secret key; not who it is.
SELECT roles, secret_keys, started_at, seen_at FROM node
 WHERE seen_at > clock() - make_interval(secs => $1)

-- name: node_sign_off
DELETE FROM node WHERE node_id = $1

-- name: node_forget
DELETE FROM node WHERE seen_at < clock() - make_interval(secs => $1)
