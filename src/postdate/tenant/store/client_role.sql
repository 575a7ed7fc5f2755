-- Login roles of clients, and the tenant each speaks for.

-- name: client_role_bind
-- Gives what an administrator has to run, where our owner may not let the role in.
SELECT client_bind($1, $2, $3, $4, $5, $6)

-- name: client_role_exists
SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)

-- name: client_role_unbind
DELETE FROM client_role WHERE role_name = $1 RETURNING tenant_id

-- name: client_role_list
SELECT r.role_name, t.name, r.scopes, r.accounts, r.max_amount, r.bound_at
  FROM client_role r JOIN tenant t USING (tenant_id) ORDER BY r.role_name LIMIT $1
