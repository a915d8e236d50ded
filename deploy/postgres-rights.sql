-- Grants the service's role its rights in the database that several boxes share, and revokes all others. The tables'
-- owner runs this script after each `understudy migrate`:
--
--   psql -v ON_ERROR_STOP=1 -f deploy/postgres-rights.sql postgres://owner:PASSWORD@db.example/understudy
--
-- The role must exist: CREATE ROLE understudy_service LOGIN PASSWORD '…'. The service writes only by functions, which
-- act with the owner's rights and check what they are given. The service reads tables directly, except those that only
-- functions need.
DO $$
DECLARE
  service CONSTANT regrole := 'understudy_service';
  one record;
BEGIN
  EXECUTE format('REVOKE ALL ON SCHEMA understudy FROM PUBLIC, %s', service);
  EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA understudy FROM PUBLIC, %s', service);
  EXECUTE format('REVOKE ALL ON ALL SEQUENCES IN SCHEMA understudy FROM PUBLIC, %s', service);
  EXECUTE format('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA understudy FROM PUBLIC, %s', service);
  EXECUTE format('GRANT USAGE ON SCHEMA understudy TO %s', service);
  FOR one IN
    SELECT oid::regclass AS name FROM pg_class
    WHERE relnamespace = 'understudy'::regnamespace AND relkind IN ('r', 'p')
      AND relname NOT IN ('boxes', 'run_boxes', 'pulses', 'live_heads', 'live_events', 'live_reserved', 'rate_state',
        'rate_divisions')
  LOOP
    EXECUTE format('GRANT SELECT ON %s TO %s', one.name, service);
  END LOOP;
  FOR one IN
    SELECT oid::regprocedure AS name FROM pg_proc WHERE pronamespace = 'understudy'::regnamespace AND prosecdef
  LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', one.name, service);
  END LOOP;
END $$;
