#!/bin/sh
# Make the database `postdate` and the roles of docs/operate/database.md ("Two addresses"). Patroni calls
# this once, on the first leader, with an address of the new server as the argument.
set -eu
: "${POSTDATE_APP_PASSWORD:?set it in the environment of Patroni}"
: "${POSTDATE_MIGRATE_PASSWORD:?set it in the environment of Patroni}"
export POSTDATE_APP_PASSWORD POSTDATE_MIGRATE_PASSWORD

exec psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 "$1" <<'SQL'
\getenv app POSTDATE_APP_PASSWORD
\getenv migrate POSTDATE_MIGRATE_PASSWORD
CREATE ROLE postdate_owner; CREATE ROLE postdate_writer; CREATE ROLE postdate_reader;
CREATE ROLE postdate_client; GRANT postdate_client TO postdate_owner WITH ADMIN OPTION;
CREATE ROLE postdate_migrate LOGIN PASSWORD :'migrate' IN ROLE postdate_owner;
CREATE ROLE postdate_app LOGIN PASSWORD :'app' IN ROLE postdate_writer, postdate_reader;
GRANT pg_read_all_stats TO postdate_writer;
CREATE DATABASE postdate;
GRANT CREATE ON DATABASE postdate TO postdate_owner;
REVOKE CONNECT ON DATABASE postdate FROM PUBLIC;
GRANT CONNECT ON DATABASE postdate TO postdate_app, postdate_migrate;
SQL
