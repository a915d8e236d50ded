/**
 * The tables and functions (schema.ts) with which boxes count each other and share the live stream. Data; any thread.
 * The tables that change often are UNLOGGED: their changes are not synced to the disk, and a crash or a fail-over
 * empties them. The table `live_reserved`, which is logged, reserves ids in blocks. So ids after a crash are higher
 * than all earlier ids. Boxes need no privileges on these tables, because they only call the functions.
 */

/** Maximum number of events of an organization that stay readable. */
export const LIVE_KEPT_EVENTS = 10_000;
/** Number of ids that one synced commit reserves. A crash may skip up to this many. */
const ID_BLOCK = 10_000;
/** A box without a pulse for this long does not count as alive. */
export const LIVE_BOX = "interval '15 seconds'";
/** Events are stored for this long after the last reader of the organization has left, so that it can resume. */
const WANTED = "interval '10 minutes'";

const FUNCTION = 'SECURITY DEFINER SET search_path = pg_catalog, pg_temp';

export const LIVE_SCHEMA = `
CREATE UNLOGGED TABLE understudy.pulses (
  box uuid PRIMARY KEY,
  at timestamptz NOT NULL
);
-- A row for each organization that has or had readers.
CREATE UNLOGGED TABLE understudy.live_heads (
  org text COLLATE "C" PRIMARY KEY,
  last_id bigint NOT NULL,
  -- Events up to this id may be missing.
  lost_id bigint NOT NULL,
  reserved_to bigint NOT NULL,
  wanted_until timestamptz NOT NULL
);
CREATE UNLOGGED TABLE understudy.live_events (
  org text COLLATE "C",
  id bigint,
  -- '': not an event, but says which events to forget.
  name text NOT NULL,
  project text,
  run text,
  at_ms bigint NOT NULL,
  data bytea NOT NULL,
  PRIMARY KEY (org, id)
);
CREATE TABLE understudy.live_reserved (
  org text COLLATE "C" PRIMARY KEY,
  reserved_to bigint NOT NULL
);

-- Records that a box is alive. Returns the number of live boxes.
CREATE FUNCTION understudy.beat(a_box uuid) RETURNS int
LANGUAGE sql ${FUNCTION} AS $$
  INSERT INTO understudy.pulses VALUES (a_box, clock_timestamp())
  ON CONFLICT (box) DO UPDATE SET at = excluded.at;
  SELECT count(*)::int FROM understudy.pulses p
  WHERE p.at > clock_timestamp() - ${LIVE_BOX} OR p.box = a_box
$$;
CREATE FUNCTION understudy.end_beat(a_box uuid) RETURNS void
LANGUAGE sql ${FUNCTION} AS $$
  DELETE FROM understudy.pulses WHERE box = a_box
$$;

-- Reserves ids. Returns the id after which they begin. Only the functions below may call it.
CREATE FUNCTION understudy.live_reserve(an_org text, ids bigint) RETURNS bigint
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  INSERT INTO understudy.live_reserved AS r VALUES (an_org, ids)
  ON CONFLICT (org) DO UPDATE SET reserved_to = r.reserved_to + ids
  RETURNING r.reserved_to - ids
$$;
REVOKE EXECUTE ON FUNCTION understudy.live_reserve FROM PUBLIC;

-- Records that these organizations have readers. If events may have been dropped before, one id is used for all of
-- these events.
CREATE FUNCTION understudy.live_want(orgs text[]) RETURNS SETOF understudy.live_heads
LANGUAGE plpgsql ${FUNCTION} AS $$
DECLARE
  an_org text;
  start bigint;
BEGIN
  FOR an_org IN SELECT DISTINCT o COLLATE "C" FROM unnest(orgs) AS o ORDER BY 1 LOOP
    -- Always before the row of live_reserved, as in live_write.
    PERFORM FROM understudy.live_heads h WHERE h.org = an_org FOR UPDATE;
    UPDATE understudy.live_heads h SET
      last_id = h.last_id + (h.wanted_until < now())::int,
      lost_id = CASE WHEN h.wanted_until < now() THEN h.last_id + 1 ELSE h.lost_id END,
      wanted_until = now() + ${WANTED}
    WHERE h.org = an_org AND h.last_id < h.reserved_to;
    CONTINUE WHEN FOUND;
    -- It is new, or the server has crashed, or the last reserved id is in use. In each case ids go on with a new block.
    start := understudy.live_reserve(an_org, ${ID_BLOCK});
    INSERT INTO understudy.live_heads AS h VALUES (an_org, start, start, start + ${ID_BLOCK}, now() + ${WANTED})
    ON CONFLICT (org) DO UPDATE SET
      last_id = greatest(h.last_id, start) + 1, lost_id = greatest(h.last_id, start) + 1,
      reserved_to = start + ${ID_BLOCK}, wanted_until = now() + ${WANTED};
  END LOOP;
  RETURN QUERY SELECT h.* FROM understudy.live_heads h WHERE h.org = ANY (orgs);
END $$;

-- Returns those of the organizations whose events are stored, because they have or had readers.
CREATE FUNCTION understudy.live_wanted(orgs text[]) RETURNS text[]
LANGUAGE sql STABLE ${FUNCTION} AS $$
  SELECT coalesce(array_agg(h.org), '{}') FROM understudy.live_heads h
  WHERE h.org = ANY (orgs) AND h.wanted_until > now()
$$;

-- Stores events in their order, each organization's with its next ids. The lock on the row of live_heads lasts until
-- the commit, so no event appears after one with a higher id. An event with the name '' removes the events that it
-- describes. For each organization in lost, one id is used for all of its lost events.
CREATE FUNCTION understudy.live_write(
  e_org text[], e_name text[], e_project text[], e_run text[], e_at_ms bigint[], e_data bytea[], lost text[]
) RETURNS void LANGUAGE plpgsql ${FUNCTION} AS $$
DECLARE
  batch record;
  base bigint;
  until bigint;
BEGIN
  FOR batch IN
    SELECT o.org, sum(o.n)::int AS n, bool_or(o.is_lost) AS is_lost FROM (
      SELECT w.org COLLATE "C" AS org, 1 AS n, false AS is_lost FROM unnest(e_org) AS w (org)
      UNION ALL SELECT l.org COLLATE "C", 0, true FROM unnest(lost) AS l (org)
    ) AS o GROUP BY o.org ORDER BY o.org
  LOOP
    UPDATE understudy.live_heads h SET
      last_id = h.last_id + batch.n + batch.is_lost::int,
      lost_id = greatest(
        CASE WHEN batch.is_lost THEN h.last_id + 1 ELSE h.lost_id END,
        h.last_id + batch.n - ${LIVE_KEPT_EVENTS}
      )
    WHERE h.org = batch.org AND h.wanted_until > now()
    RETURNING h.last_id - batch.n, h.reserved_to INTO base, until;
    CONTINUE WHEN NOT FOUND;
    IF base + batch.n > until THEN
      UPDATE understudy.live_heads h
      SET reserved_to = understudy.live_reserve(batch.org, batch.n + ${ID_BLOCK}) + batch.n + ${ID_BLOCK}
      WHERE h.org = batch.org;
    END IF;
    IF '' = ANY (e_name) THEN
      DELETE FROM understudy.live_events e
      USING unnest(e_org, e_name, e_project, e_run, e_at_ms) AS f (org, name, project, run, at_ms)
      WHERE f.org = batch.org AND f.name = '' AND e.org = batch.org AND e.name <> ''
        AND (f.run IS NULL OR e.run = f.run) AND (f.project IS NULL OR e.project = f.project)
        AND (f.at_ms = 0 OR e.at_ms < f.at_ms);
    END IF;
    INSERT INTO understudy.live_events
      SELECT batch.org, base + row_number() OVER (ORDER BY w.place), w.name, w.project, w.run, w.at_ms, w.data
      FROM unnest(e_org, e_name, e_project, e_run, e_at_ms, e_data)
        WITH ORDINALITY AS w (org, name, project, run, at_ms, data, place)
      WHERE w.org = batch.org;
    DELETE FROM understudy.live_events e WHERE e.org = batch.org AND e.id <= base + batch.n - ${LIVE_KEPT_EVENTS};
  END LOOP;
END $$;

-- Returns the head of each organization with events after the given id, and up to max_events of these events.
CREATE FUNCTION understudy.live_read(orgs text[], afters bigint[], max_events int)
RETURNS TABLE (
  org text, last_id bigint, lost_id bigint,
  id bigint, name text, project text, run text, at_ms bigint, data bytea
) LANGUAGE sql STABLE ${FUNCTION} AS $$
  SELECT h.org, h.last_id, h.lost_id, e.id, e.name, e.project, e.run, e.at_ms, e.data
  FROM unnest(orgs, afters) AS o (org, after)
  JOIN understudy.live_heads h ON h.org = o.org COLLATE "C" AND h.last_id > o.after
  LEFT JOIN LATERAL (
    SELECT n.* FROM understudy.live_events n
    WHERE n.org = h.org AND n.id > greatest(o.after, h.lost_id) ORDER BY n.id LIMIT max_events
  ) AS e ON true
  ORDER BY h.org, e.id
$$;

-- Forgets organizations that have had no readers for long, and boxes that have ended. Any box may call it.
CREATE FUNCTION understudy.live_tidy() RETURNS void
LANGUAGE sql ${FUNCTION} AS $$
  WITH gone AS (
    DELETE FROM understudy.live_heads h WHERE h.wanted_until < now() RETURNING h.org
  )
  DELETE FROM understudy.live_events e USING gone WHERE e.org = gone.org;
  DELETE FROM understudy.pulses p WHERE p.at < clock_timestamp() - 4 * ${LIVE_BOX}
$$;
-- Forgets events from before a time.
CREATE FUNCTION understudy.live_expire(before_ms bigint) RETURNS void
LANGUAGE sql ${FUNCTION} AS $$
  DELETE FROM understudy.live_events e WHERE e.at_ms < before_ms AND e.name <> ''
$$;
`;
