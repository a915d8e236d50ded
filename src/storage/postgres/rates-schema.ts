/**
 * The tables and functions (schema.ts) with which boxes divide the rates of keys. Data; any thread. Both tables are
 * UNLOGGED: their changes are not synced to the disk, and a crash or a fail-over empties them. Then the epoch
 * changes, and boxes write their entries again. Boxes need no privileges on these tables, because they only call
 * the functions.
 */

import { LIVE_BOX } from './live-schema.ts';

/**
 * Maximum number of keys whose rates are not divided equally. The entry of a further key is not stored, and its rate
 * stays divided equally.
 */
export const DIVIDED_KEYS = 1_024;
/**
 * Removed entries are kept for this long, so that every box reads the removal. A session without a call for longer has
 * ended.
 */
const REMOVED = "interval '10 minutes'";

const FUNCTION = 'SECURITY DEFINER SET search_path = pg_catalog, pg_temp';

export const RATES_SCHEMA = `
CREATE UNLOGGED TABLE understudy.rate_state (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  epoch uuid NOT NULL DEFAULT gen_random_uuid(),
  version bigint NOT NULL DEFAULT 0
);
CREATE UNLOGGED TABLE understudy.rate_divisions (
  key bigint PRIMARY KEY,
  version bigint NOT NULL,
  at timestamptz NOT NULL,
  -- null: the entry was removed.
  data text
);
CREATE INDEX rate_divisions_version ON understudy.rate_divisions (version);

-- Records that a box is alive. Returns the live boxes.
CREATE FUNCTION understudy.beat_boxes(a_box uuid) RETURNS uuid[]
LANGUAGE sql ${FUNCTION} AS $$
  SELECT understudy.beat(a_box);
  SELECT array_agg(p.box) FROM understudy.pulses p
  WHERE p.at > clock_timestamp() - ${LIVE_BOX} OR p.box = a_box
$$;

-- Returns the entries that have changed after a version; one row without a key if none has.
CREATE FUNCTION understudy.rates_read(after bigint)
RETURNS TABLE (epoch uuid, last bigint, key bigint, version bigint, data text)
LANGUAGE plpgsql ${FUNCTION} AS $$
#variable_conflict use_column
BEGIN
  INSERT INTO understudy.rate_state DEFAULT VALUES ON CONFLICT DO NOTHING;
  RETURN QUERY
    SELECT s.epoch, s.version, r.key, r.version, r.data FROM understudy.rate_state s
    LEFT JOIN understudy.rate_divisions r ON r.version > after;
END $$;

-- Writes each entry whose stored version is the one that bases has for it. The lock on the one row of rate_state gives
-- all writes one order, so no version is visible before an earlier one.
CREATE FUNCTION understudy.rates_write(an_epoch uuid, keys bigint[], bases bigint[], datas text[]) RETURNS bigint[]
LANGUAGE plpgsql ${FUNCTION} AS $$
DECLARE
  here record;
  known record;
  stored bigint;
  written bigint[] := '{}';
BEGIN
  SELECT s.epoch, s.version INTO here FROM understudy.rate_state s FOR UPDATE;
  IF here.epoch IS DISTINCT FROM an_epoch THEN RETURN array_fill(NULL::bigint, ARRAY[cardinality(keys)]); END IF;
  SELECT count(*) INTO stored FROM understudy.rate_divisions r WHERE r.data IS NOT NULL;
  FOR i IN 1 .. cardinality(keys) LOOP
    SELECT r.version, r.data IS NOT NULL AS is_stored INTO known FROM understudy.rate_divisions r WHERE r.key = keys[i];
    known.is_stored := coalesce(known.is_stored, false);
    IF (CASE WHEN known.is_stored THEN known.version ELSE 0 END) <> bases[i]
      OR (NOT known.is_stored AND (datas[i] IS NULL OR stored >= ${DIVIDED_KEYS})) THEN
      written := array_append(written, NULL::bigint);
      CONTINUE;
    END IF;
    here.version := here.version + 1;
    stored := stored + (datas[i] IS NOT NULL)::int - known.is_stored::int;
    INSERT INTO understudy.rate_divisions VALUES (keys[i], here.version, clock_timestamp(), datas[i])
    ON CONFLICT (key) DO UPDATE SET version = excluded.version, at = excluded.at, data = excluded.data;
    written := array_append(written, here.version);
  END LOOP;
  UPDATE understudy.rate_state SET version = here.version;
  RETURN written;
END $$;

CREATE FUNCTION understudy.rates_tidy() RETURNS void
LANGUAGE sql ${FUNCTION} AS $$
  DELETE FROM understudy.rate_divisions r WHERE r.data IS NULL AND r.at < clock_timestamp() - ${REMOVED}
$$;
`;
