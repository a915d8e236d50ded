/**
 * The database's schema as a list of migrations, one for each version. Data; any thread.
 * `rows` has the current value of each row and the position of its last change. New boxes load it, and other boxes
 * query it for changes. A removed row is kept with the value null until no box can need it. `commits` has a token for
 * each position, by which a box recognizes a database that was restored from a backup. `boxes` has the last batch of
 * each process.
 * Version 2 adds runs. `owners` has the box of each actor. `run_rows` has rows that are read only by queries, including
 * histories; its partition `run_states` has rows that are replaced often, with free space for that in each page.
 * `counters` has a row for each box, so boxes never wait for each other. `run_boxes` has the last batch of each
 * process.
 * Version 3 adds how the rates of keys are divided among boxes (rates-schema.ts).
 * Locks are taken in this order: the box's own row, owners by their keys, `state`. A transaction that has locked
 * `state` takes none of the others.
 */

import { LIVE_SCHEMA } from './live-schema.ts';
import { RATES_SCHEMA } from './rates-schema.ts';

/** The version that this program works with. */
export const SCHEMA_VERSION = 3;

/** How long changes are kept. A box that has not read changes for longer loads all rows again. */
const KEPT = "interval '7 days'";

const VERSION_1 = `
CREATE TABLE understudy.state (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  -- Identifies the content; rows are sealed for it.
  identity uuid NOT NULL DEFAULT gen_random_uuid(),
  -- Identifies the data key; null: rows are not sealed.
  key_id text,
  position bigint NOT NULL DEFAULT 0,
  token uuid NOT NULL DEFAULT gen_random_uuid(),
  -- Removals up to this position may be forgotten.
  floor bigint NOT NULL DEFAULT 0
);
CREATE TABLE understudy.rows (
  tbl text COLLATE "C" NOT NULL,
  key bytea NOT NULL,
  value bytea,
  position bigint NOT NULL,
  PRIMARY KEY (tbl, key)
);
CREATE INDEX rows_position ON understudy.rows (position);
CREATE TABLE understudy.commits (
  position bigint PRIMARY KEY,
  token uuid NOT NULL,
  box uuid NOT NULL,
  at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE understudy.boxes (
  box uuid PRIMARY KEY,
  term bigint NOT NULL DEFAULT 0,
  batch bigint NOT NULL DEFAULT 0,
  verdicts bigint[] NOT NULL DEFAULT '{}',
  at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO understudy.state DEFAULT VALUES;

-- Opens a session of a box. Earlier sessions of the box can no longer commit.
CREATE FUNCTION understudy.enter(a_box uuid, OUT term bigint, OUT batch bigint, OUT verdicts bigint[])
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  INSERT INTO understudy.boxes AS b (box) VALUES (a_box)
  ON CONFLICT (box) DO UPDATE SET term = b.term + 1, at = now()
  RETURNING b.term, b.batch, b.verdicts
$$;

-- Sets the data key of the rows if nothing was committed yet. Returns the id of the key that the rows have; null: they
-- are not sealed.
CREATE FUNCTION understudy.choose_key(a_key text) RETURNS text
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  UPDATE understudy.state SET key_id = a_key WHERE position = 0;
  SELECT key_id FROM understudy.state
$$;

-- Decides proposals in their order. The lock on the one row of state gives all commits of all boxes one order.
-- Reads and writes are in arrays; r_of and w_of say to which proposal (from 1) an entry belongs.
-- A verdict is the position of the commit, or -1 for a conflict.
CREATE FUNCTION understudy.commit(
  a_box uuid, a_term bigint, a_batch bigint, bases bigint[],
  r_of int[], r_tbl text[], r_first bytea[], r_end bytea[],
  w_of int[], w_tbl text[], w_key bytea[], w_value bytea[]
) RETURNS bigint[] LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
-- Otherwise the planner assumes that a new table is small, and reads all of it, with its dead row versions.
SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  here bigint;
  before bigint;
  kept_from bigint;
  known record;
  is_conflict boolean;
  decided bigint[] := '{}';
  a_token uuid := gen_random_uuid();
BEGIN
  SELECT s.position, s.floor INTO STRICT here, kept_from FROM understudy.state s FOR UPDATE;
  SELECT b.term, b.batch, b.verdicts INTO known FROM understudy.boxes b WHERE b.box = a_box;
  IF known.term IS DISTINCT FROM a_term OR a_batch NOT IN (known.batch, known.batch + 1) THEN
    RAISE EXCEPTION 'this session of the box has ended' USING ERRCODE = 'UND01';
  END IF;
  IF known.batch = a_batch THEN RETURN known.verdicts; END IF;
  before := here;
  -- The usual case: nothing that a proposal read was changed, by others or by an earlier proposal. Then all are
  -- written at once. Otherwise each is decided by itself.
  SELECT kept_from > any (bases) OR EXISTS (
    WITH changed AS MATERIALIZED (
      SELECT c.tbl, c.key, c.position, 0 AS of FROM understudy.rows c
      WHERE c.position > (SELECT min(b.base) FROM unnest(bases) AS b (base))
      UNION ALL
      SELECT w.tbl COLLATE "C", w.key, here + w.of, w.of FROM unnest(w_of, w_tbl, w_key) AS w (of, tbl, key)
    )
    SELECT FROM changed c JOIN unnest(r_of, r_tbl, r_first, r_end) AS r (of, tbl, first, "end")
      ON c.tbl = r.tbl COLLATE "C" AND c.key >= r.first AND c.key < r."end"
        AND c.of < r.of AND c.position > bases[r.of]
  ) INTO is_conflict;
  IF NOT is_conflict THEN
    INSERT INTO understudy.rows AS t (tbl, key, value, position)
      SELECT DISTINCT ON (w.tbl COLLATE "C", w.key) w.tbl, w.key, w.value, here + w.of
      FROM unnest(w_of, w_tbl, w_key, w_value) AS w (of, tbl, key, value)
      ORDER BY w.tbl COLLATE "C", w.key, w.of DESC
    ON CONFLICT (tbl, key) DO UPDATE SET value = excluded.value, position = excluded.position;
    decided := ARRAY(SELECT here + n FROM generate_series(1, cardinality(bases)) AS n);
    here := here + cardinality(bases);
  ELSE
    FOR i IN 1 .. cardinality(bases) LOOP
      -- What was removed before is forgotten, so there is nothing to compare with.
      is_conflict := bases[i] < kept_from;
      IF NOT is_conflict AND bases[i] < here THEN
        WITH changed AS MATERIALIZED (
          SELECT c.tbl, c.key FROM understudy.rows c WHERE c.position > bases[i]
        )
        SELECT EXISTS (
          SELECT FROM changed c
          JOIN unnest(r_of, r_tbl, r_first, r_end) AS r (of, tbl, first, "end")
            ON r.of = i AND c.tbl = r.tbl COLLATE "C" AND c.key >= r.first AND c.key < r."end"
        ) INTO is_conflict;
      END IF;
      IF is_conflict THEN
        decided := decided || -1::bigint;
        CONTINUE;
      END IF;
      here := here + 1;
      INSERT INTO understudy.rows AS t (tbl, key, value, position)
        SELECT w.tbl, w.key, w.value, here
        FROM unnest(w_of, w_tbl, w_key, w_value) AS w (of, tbl, key, value) WHERE w.of = i
      ON CONFLICT (tbl, key) DO UPDATE SET value = excluded.value, position = excluded.position;
      decided := decided || here;
    END LOOP;
  END IF;
  UPDATE understudy.boxes b SET batch = a_batch, verdicts = decided, at = now() WHERE b.box = a_box;
  IF here > before THEN
    UPDATE understudy.state SET position = here, token = a_token;
    INSERT INTO understudy.commits (position, token, box) VALUES (here, a_token, a_box);
    NOTIFY understudy;
  END IF;
  RETURN decided;
END $$;

-- Forgets commits and boxes that are older than age, and marks earlier removals as forgettable, which sweep then
-- forgets. Any box may call prune and sweep at any time. They are two functions, because commits wait while prune runs.
CREATE FUNCTION understudy.prune(age interval DEFAULT ${KEPT}) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  until bigint;
BEGIN
  PERFORM FROM understudy.state FOR UPDATE;
  SELECT max(position) INTO until FROM understudy.commits WHERE at < now() - age;
  DELETE FROM understudy.boxes WHERE at < now() - age;
  DELETE FROM understudy.commits WHERE position < until;
  UPDATE understudy.state SET floor = greatest(floor, until) WHERE floor < until;
END $$;
CREATE FUNCTION understudy.sweep() RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  DELETE FROM understudy.rows WHERE value IS NULL AND position <= (SELECT floor FROM understudy.state)
$$;
`;

/** Maximum number of actors that one call releases. Every box gets a row for each released actor. */
const RELEASED = 5_000;
/** Id under which the counters of removed boxes are kept. */
const DEPARTED = "'00000000-0000-0000-0000-000000000000'::uuid";

const VERSION_2 = `
CREATE SEQUENCE understudy.terms;
CREATE TABLE understudy.owners (
  -- The address as it begins the keys of the actor's history.
  actor bytea PRIMARY KEY,
  box uuid NOT NULL,
  term bigint NOT NULL,
  taken_at timestamptz NOT NULL
) WITH (fillfactor = 80);
CREATE TABLE understudy.run_rows (
  tbl text COLLATE "C" NOT NULL,
  key bytea NOT NULL,
  value bytea NOT NULL,
  PRIMARY KEY (tbl, key)
) PARTITION BY LIST (tbl);
CREATE TABLE understudy.run_states PARTITION OF understudy.run_rows
  FOR VALUES IN ('snapshots', 'rows:run_totals') WITH (fillfactor = 50);
CREATE TABLE understudy.run_histories PARTITION OF understudy.run_rows DEFAULT;
CREATE TABLE understudy.counters (
  tbl text COLLATE "C" NOT NULL,
  key bytea NOT NULL,
  name text COLLATE "C" NOT NULL,
  box uuid NOT NULL,
  n double precision NOT NULL,
  PRIMARY KEY (tbl, key, name, box)
) WITH (fillfactor = 50);
CREATE TABLE understudy.run_boxes (
  box uuid PRIMARY KEY,
  term bigint NOT NULL DEFAULT 0,
  batch bigint NOT NULL DEFAULT 0,
  lost int[] NOT NULL DEFAULT '{}',
  position bigint,
  at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);

-- Users who may read the rows of version 1 may read these tables, too.
DO $$
DECLARE
  reader text;
BEGIN
  FOR reader IN
    SELECT DISTINCT a.grantee::regrole::text FROM pg_class c, aclexplode(c.relacl) a
    WHERE c.oid = 'understudy.rows'::regclass AND a.privilege_type = 'SELECT' AND a.grantee <> 0
  LOOP
    EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA understudy TO %s', reader);
  END LOOP;
END $$;

-- Opens a session of a box for runs. Earlier sessions of the box can no longer take actors or commit.
CREATE FUNCTION understudy.enter_runs(
  a_box uuid, OUT term bigint, OUT batch bigint, OUT lost int[], OUT place bigint
) LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  INSERT INTO understudy.run_boxes AS b (box) VALUES (a_box)
  ON CONFLICT (box) DO UPDATE SET term = b.term + 1, at = now()
  RETURNING b.term, b.batch, b.lost, b.position
$$;

-- Writes rows that every box follows. Only the functions below may call it.
CREATE FUNCTION understudy.place_rows(a_box uuid, w_tbl text[], w_key bytea[], w_value bytea[]) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  here bigint;
  a_token uuid := gen_random_uuid();
BEGIN
  SELECT s.position + 1 INTO STRICT here FROM understudy.state s FOR UPDATE;
  INSERT INTO understudy.rows AS t (tbl, key, value, position)
    SELECT DISTINCT ON (w.tbl COLLATE "C", w.key) w.tbl, w.key, w.value, here
    FROM unnest(w_tbl, w_key, w_value) WITH ORDINALITY AS w (tbl, key, value, n)
    ORDER BY w.tbl COLLATE "C", w.key, w.n DESC
  ON CONFLICT (tbl, key) DO UPDATE SET value = excluded.value, position = excluded.position;
  UPDATE understudy.state SET position = here, token = a_token;
  INSERT INTO understudy.commits (position, token, box) VALUES (here, a_token, a_box);
  NOTIFY understudy;
  RETURN here;
END $$;
REVOKE EXECUTE ON FUNCTION understudy.place_rows FROM PUBLIC;

-- For this long after a box has taken an actor, no other box can take it, so that the box can work. Safety does not
-- depend on this.
CREATE FUNCTION understudy.held_for() RETURNS interval LANGUAGE sql IMMUTABLE AS $$
  SELECT interval '20 milliseconds'
$$;

-- Makes a box the owner of actors. Returns their rows, with the number of the actor (from 1). An actor that another box
-- has just taken is missing in the result.
CREATE FUNCTION understudy.take_runs(a_box uuid, a_term bigint, actors bytea[])
RETURNS TABLE (n int, term bigint, place bigint, tbl text, key bytea, value bytea)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  asked record;
  former record;
  numbers int[] := '{}';
  addresses bytea[] := '{}';
  taken bigint[] := '{}';
  is_other boolean[] := '{}';
  next bigint;
  here bigint;
BEGIN
  PERFORM FROM understudy.run_boxes b WHERE b.box = a_box AND b.term = a_term FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'this session of the box has ended' USING ERRCODE = 'UND01';
  END IF;
  -- One after the other in the order of all locks.
  FOR asked IN SELECT a.actor, a.n FROM unnest(actors) WITH ORDINALITY AS a (actor, n) ORDER BY a.actor LOOP
    next := nextval('understudy.terms');
    SELECT o.box, o.taken_at INTO former FROM understudy.owners o WHERE o.actor = asked.actor FOR NO KEY UPDATE;
    IF NOT FOUND THEN
      INSERT INTO understudy.owners (actor, box, term, taken_at)
        VALUES (asked.actor, a_box, next, clock_timestamp()) ON CONFLICT DO NOTHING;
      CONTINUE WHEN NOT FOUND;
      is_other := array_append(is_other, false);
    ELSE
      CONTINUE WHEN former.box <> a_box
        AND clock_timestamp() BETWEEN former.taken_at - understudy.held_for() AND former.taken_at + understudy.held_for();
      UPDATE understudy.owners o SET box = a_box, term = next, taken_at = clock_timestamp()
        WHERE o.actor = asked.actor;
      is_other := array_append(is_other, former.box <> a_box);
    END IF;
    numbers := array_append(numbers, asked.n::int);
    addresses := array_append(addresses, asked.actor);
    taken := array_append(taken, next);
  END LOOP;
  IF true = any (is_other) THEN
    SELECT understudy.place_rows(a_box, array_agg('owners'::text), array_agg(t.actor || substring(int8send(t.term) FROM 3)),
        array_agg(NULL::bytea)) INTO here
      FROM unnest(addresses, taken, is_other) AS t (actor, term, is_other) WHERE t.is_other;
  END IF;
  RETURN QUERY
    SELECT t.n, t.term, CASE WHEN t.is_other THEN here END, r.tbl, r.key, r.value
    FROM unnest(numbers, addresses, taken, is_other) AS t (n, actor, term, is_other)
    LEFT JOIN LATERAL (
      SELECT s.tbl::text, s.key, s.value FROM understudy.run_rows s
      WHERE s.tbl = 'snapshots' AND s.key >= t.actor AND s.key < t.actor || '\\xffffffffffffff'::bytea
      UNION ALL
      SELECT e.tbl::text, e.key, e.value FROM understudy.run_rows e
      WHERE e.tbl = 'journal' AND e.key >= t.actor AND e.key < t.actor || '\\xffffffffffffff'::bytea
    ) r ON true;
END $$;

-- Stores the changes of those actors whose current terms are given. Removals (d), rows (w), rows that every box follows
-- (r) and counts (c) are in arrays; d_of, w_of, r_of and c_of say to which actor (from 1) an entry belongs. In each
-- phase (from 1), removals come before rows. The locks on owners keep other boxes from taking the actors before the commit.
CREATE FUNCTION understudy.commit_runs(
  a_box uuid, a_term bigint, a_batch bigint, actors bytea[], terms bigint[], phases int,
  d_of int[], d_phase int[], d_tbl text[], d_first bytea[], d_end bytea[], d_limit bigint[],
  w_of int[], w_phase int[], w_tbl text[], w_key bytea[], w_value bytea[],
  r_of int[], r_tbl text[], r_key bytea[], r_value bytea[],
  c_of int[], c_tbl text[], c_key bytea[], c_name text[], c_by double precision[],
  OUT lost int[], OUT place bigint
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  known record;
  kept int[];
  is_all boolean;
  d record;
  until bytea;
BEGIN
  SELECT b.term, b.batch, b.lost, b.position INTO known FROM understudy.run_boxes b WHERE b.box = a_box FOR UPDATE;
  IF known.term IS DISTINCT FROM a_term OR a_batch NOT IN (known.batch, known.batch + 1) THEN
    RAISE EXCEPTION 'this session of the box has ended' USING ERRCODE = 'UND01';
  END IF;
  IF known.batch = a_batch THEN
    lost := known.lost;
    place := known.position;
    RETURN;
  END IF;
  kept := ARRAY(
    SELECT a.n::int FROM unnest(actors, terms) WITH ORDINALITY AS a (actor, term, n)
    JOIN understudy.owners o ON o.actor = a.actor AND o.box = a_box AND o.term = a.term
    ORDER BY o.actor FOR NO KEY UPDATE OF o
  );
  -- The usual case; otherwise each entry is looked up among the kept actors.
  is_all := cardinality(kept) = cardinality(actors);
  lost := '{}';
  IF NOT is_all THEN
    lost := ARRAY(SELECT n FROM generate_series(1, cardinality(actors)) AS n WHERE n <> ALL (kept));
  END IF;
  FOR p IN 1 .. phases LOOP
    FOR d IN
      SELECT u.tbl, u.first, u."end", u.n
      FROM unnest(d_of, d_phase, d_tbl, d_first, d_end, d_limit) WITH ORDINALITY AS u (of, phase, tbl, first, "end", n, at)
      WHERE u.phase = p AND (is_all OR u.of = ANY (kept)) ORDER BY u.at
    LOOP
      until := NULL;
      IF d.n IS NOT NULL THEN
        SELECT s.key INTO until FROM understudy.run_rows s
        WHERE s.tbl = d.tbl AND s.key >= d.first AND s.key < d."end" ORDER BY s.key OFFSET d.n LIMIT 1;
      END IF;
      DELETE FROM understudy.run_rows s
      WHERE s.tbl = d.tbl AND s.key >= d.first AND s.key < coalesce(until, d."end");
    END LOOP;
    INSERT INTO understudy.run_rows (tbl, key, value)
      SELECT w.tbl, w.key, w.value FROM unnest(w_of, w_phase, w_tbl, w_key, w_value) AS w (of, phase, tbl, key, value)
      WHERE w.phase = p AND (is_all OR w.of = ANY (kept))
    ON CONFLICT (tbl, key) DO UPDATE SET value = excluded.value;
  END LOOP;
  INSERT INTO understudy.counters AS t (tbl, key, name, box, n)
    SELECT c.tbl, c.key, c.name, a_box, sum(c.by)
    FROM unnest(c_of, c_tbl, c_key, c_name, c_by) AS c (of, tbl, key, name, by)
    WHERE (is_all OR c.of = ANY (kept)) GROUP BY c.tbl, c.key, c.name
  ON CONFLICT (tbl, key, name, box) DO UPDATE SET n = t.n + excluded.n;
  IF r_of && kept THEN
    SELECT understudy.place_rows(a_box, array_agg(r.tbl ORDER BY r.n), array_agg(r.key ORDER BY r.n), array_agg(r.value ORDER BY r.n))
      INTO place
      FROM unnest(r_of, r_tbl, r_key, r_value) WITH ORDINALITY AS r (of, tbl, key, value, n)
      WHERE is_all OR r.of = ANY (kept);
  END IF;
  UPDATE understudy.run_boxes b SET batch = a_batch, lost = commit_runs.lost, position = place, at = now()
    WHERE b.box = a_box;
END $$;

-- Forgets boxes that have not used the database for longer than age: their actors then have no owner, and their
-- counters are added to common rows. Actors that boxes took longer ago than age lose their owner, too, and every box gets a row that
-- reports it. Any box may call this function at any time.
CREATE FUNCTION understudy.tidy_runs(a_box uuid, age interval DEFAULT ${KEPT}) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  gone uuid[];
  released bytea[];
BEGIN
  UPDATE understudy.run_boxes SET at = now() WHERE box = a_box;
  gone := ARRAY(SELECT box FROM understudy.run_boxes WHERE at < now() - age AND box <> a_box FOR UPDATE SKIP LOCKED);
  IF gone <> '{}' THEN
    DELETE FROM understudy.run_boxes WHERE box = ANY (gone);
    DELETE FROM understudy.owners WHERE actor IN (
      SELECT actor FROM understudy.owners WHERE box = ANY (gone) ORDER BY actor FOR UPDATE SKIP LOCKED
    );
    WITH moved AS (DELETE FROM understudy.counters WHERE box = ANY (gone) RETURNING tbl, key, name, n)
    INSERT INTO understudy.counters AS t (tbl, key, name, box, n)
      SELECT tbl, key, name, ${DEPARTED}, sum(n) FROM moved GROUP BY tbl, key, name ORDER BY tbl, key, name
    ON CONFLICT (tbl, key, name, box) DO UPDATE SET n = t.n + excluded.n;
  END IF;
  released := ARRAY(
    SELECT o.actor FROM understudy.owners o
    WHERE o.taken_at < now() - age
      AND o.actor IN (SELECT actor FROM understudy.owners WHERE taken_at < now() - age LIMIT ${RELEASED})
    ORDER BY o.actor FOR UPDATE SKIP LOCKED
  );
  IF released <> '{}' THEN
    DELETE FROM understudy.owners WHERE actor = ANY (released);
    PERFORM understudy.place_rows(a_box, array_agg('owners'::text),
        array_agg(r.actor || substring(int8send(nextval('understudy.terms')) FROM 3)), array_agg(NULL::bytea))
      FROM unnest(released) AS r (actor);
  END IF;
END $$;
${LIVE_SCHEMA}`;

/** Migration to version 1, 2, … */
export const MIGRATIONS: readonly string[] = [VERSION_1, VERSION_2, RATES_SCHEMA];
