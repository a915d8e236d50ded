#!/bin/sh
# At the first start of PostgreSQL's image: makes the user of the service. postgres-rights.sql gives it its rights.
set -eu
psql -v ON_ERROR_STOP=1 -v password="$(cat /run/secrets/service_password)" -U "$POSTGRES_USER" -d "$POSTGRES_DB" <<'SQL'
CREATE ROLE understudy_service LOGIN PASSWORD :'password';
SQL
