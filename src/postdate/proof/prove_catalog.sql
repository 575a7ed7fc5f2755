-- The catalog, as lines of text: what a release ships is compared with what the database has.
-- Partitions of a week count as one; names are written without their schema.

-- name: prove_catalog_lines
WITH ours AS MATERIALIZED (
    SELECT c.oid, c.relkind, c.relrowsecurity, c.relforcerowsecurity, c.relowner, c.relacl,
           regexp_replace(c.relname, '_[0-9]{8}$', '_WEEK') AS name,
           -- A week that was detached is still there under its name.
           c.relispartition OR c.relname ~ '_[0-9]{8}$' AS part
      FROM pg_class c
     WHERE c.relnamespace = current_schema()::regnamespace
       AND c.relkind IN ('r', 'p', 'v', 'm', 'S')
), called AS MATERIALIZED (
    SELECT p.*, p.proname::text AS name FROM pg_proc p
     WHERE p.pronamespace = current_schema()::regnamespace
)
SELECT 'table' AS kind, name AS subject,
       format('kind %s, row security %s, forced %s, owner %s', relkind, relrowsecurity,
              relforcerowsecurity, pg_get_userbyid(relowner)) AS detail
  FROM ours
 UNION
SELECT 'grant', o.name, format('%s to %s', a.privilege_type, coalesce(r.rolname, 'PUBLIC'))
  FROM ours o CROSS JOIN LATERAL aclexplode(o.relacl) AS a LEFT JOIN pg_roles r ON r.oid = a.grantee
 WHERE a.grantee <> o.relowner
 UNION
SELECT 'grant', o.name || '.' || t.attname,
       format('%s to %s', a.privilege_type, coalesce(r.rolname, 'PUBLIC'))
  FROM ours o JOIN pg_attribute t ON t.attrelid = o.oid
 CROSS JOIN LATERAL aclexplode(t.attacl) AS a LEFT JOIN pg_roles r ON r.oid = a.grantee
 UNION
SELECT 'policy', o.name, format('%s %s for %s to %s using (%s) check (%s)', p.polname,
       CASE WHEN p.polpermissive THEN 'admits' ELSE 'restricts' END, p.polcmd,
       (SELECT string_agg(coalesce(r.rolname, 'PUBLIC'), ', ' ORDER BY r.rolname)
          FROM unnest(p.polroles) AS of_role LEFT JOIN pg_roles r ON r.oid = of_role),
       pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid))
  FROM ours o JOIN pg_policy p ON p.polrelid = o.oid
 UNION
SELECT 'column', o.name, concat_ws(' ', t.attname, format_type(t.atttypid, t.atttypmod),
       CASE WHEN t.attnotnull THEN 'not null' END, nullif(t.attidentity::text, ''),
       nullif(t.attgenerated::text, ''), 'default ' || pg_get_expr(d.adbin, d.adrelid))
  FROM ours o JOIN pg_attribute t ON t.attrelid = o.oid AND t.attnum > 0 AND NOT t.attisdropped
  LEFT JOIN pg_attrdef d ON d.adrelid = t.attrelid AND d.adnum = t.attnum
 WHERE o.relkind IN ('r', 'p')
 UNION
SELECT 'trigger', o.name, CASE WHEN o.part THEN format('%s %s', g.tgname, g.tgenabled)
       ELSE format('%s %s', pg_get_triggerdef(g.oid), g.tgenabled) END
  FROM ours o JOIN pg_trigger g ON g.tgrelid = o.oid AND NOT g.tgisinternal
 UNION
SELECT 'trigger', o.name, 'one of a foreign key is off'
  FROM ours o JOIN pg_trigger g ON g.tgrelid = o.oid AND g.tgisinternal AND g.tgenabled <> 'O'
 UNION
SELECT 'constraint', o.name, format('%s %s%s', n.conname, pg_get_constraintdef(n.oid),
       CASE WHEN NOT n.convalidated THEN ' not valid' END)
  FROM ours o JOIN pg_constraint n ON n.conrelid = o.oid AND n.contype <> 'n'
 WHERE NOT o.part
 UNION
SELECT 'index', o.name, pg_get_indexdef(i.indexrelid)
  FROM ours o JOIN pg_index i ON i.indrelid = o.oid AND i.indisunique AND i.indisvalid
 WHERE NOT o.part
 UNION
SELECT 'rule', o.name, w.rulename::text
  FROM ours o JOIN pg_rewrite w ON w.ev_class = o.oid AND w.rulename <> '_RETURN'
 UNION
SELECT 'function', f.name, format('in %s, definer %s, %s, settings %s, owner %s', l.lanname,
       f.prosecdef, f.provolatile, f.proconfig, pg_get_userbyid(f.proowner))
  FROM called f JOIN pg_language l ON l.oid = f.prolang
 UNION
SELECT 'call', f.name, format('by %s', coalesce(r.rolname, 'PUBLIC'))
  FROM called f CROSS JOIN LATERAL aclexplode(coalesce(f.proacl, acldefault('f', f.proowner))) AS a
  LEFT JOIN pg_roles r ON r.oid = a.grantee
 WHERE a.grantee <> f.proowner
 UNION
SELECT 'schema', n.nspname::text, format('%s to %s', a.privilege_type,
                                         coalesce(r.rolname, 'PUBLIC'))
  FROM pg_namespace n CROSS JOIN LATERAL aclexplode(n.nspacl) AS a
  LEFT JOIN pg_roles r ON r.oid = a.grantee
 WHERE n.nspname = current_schema() AND a.grantee <> n.nspowner

-- name: prove_catalog_roles
-- Clients' logins that are more than that, roles of ours that row-level security does not bind, and
-- sessions that begin without triggers, policies or the isolation that our statements count on.
SELECT r.rolname::text AS subject,
       format('the login of a client can act as %s', ours.name) AS detail
  FROM client_role c JOIN pg_roles r ON r.rolname = c.role_name
 CROSS JOIN (VALUES ('postdate_owner'), ('postdate_writer'), ('postdate_reader')) AS ours (name)
 WHERE pg_has_role(r.oid, ours.name, 'MEMBER')
 UNION ALL
SELECT r.rolname::text, 'row-level security does not bind this role'
  FROM pg_roles r
 WHERE (r.rolsuper OR r.rolbypassrls)
   AND (r.rolname IN ('postdate_writer', 'postdate_reader')
        OR r.rolname IN (SELECT role_name FROM client_role))
 UNION ALL
SELECT coalesce(r.rolname::text, 'database'), format('sessions begin with %s', entry)
  FROM pg_db_role_setting s
 CROSS JOIN unnest(s.setconfig) AS entry
  LEFT JOIN pg_roles r ON r.oid = s.setrole
 WHERE s.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
   AND split_part(entry, '=', 1) IN ('session_replication_role', 'row_security', 'role',
        'default_transaction_isolation', 'session_preload_libraries', 'local_preload_libraries')
 UNION ALL
SELECT 'server', 'session_replication_role is ' || current_setting('session_replication_role')
 WHERE current_setting('session_replication_role') <> 'origin'
 ORDER BY 1, 2

-- name: prove_catalog_clock_watch
-- What was recorded of the clock lies behind it; a day more, for clocks that were set back.
SELECT instant_text(at) FROM clock_watch WHERE at > machine_clock() + interval '1 day'
