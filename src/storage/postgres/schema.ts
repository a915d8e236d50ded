/**
 * The database's schema as a list of migrations, each for one version after the other. Data; any thread.
 * `rows` has the present value of each row and the position of its last change. So it is both the state, from which a
 * new box starts, and what others ask for changes. A removed row stays with the value null, until no box can need it.
 * `commits` names the positions, by which a box recognizes a database that was restored from a backup. `boxes` has the
 * last batch of each process.
 */

/** The version that this program works with. */
export const SCHEMA_VERSION = 1;

/** Changes that every box must see; newer ones make a box load everything. */
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

-- Opens a session of a box; earlier ones of the box can commit no more.
CREATE FUNCTION understudy.enter(a_box uuid, OUT term bigint, OUT batch bigint, OUT verdicts bigint[])
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  INSERT INTO understudy.boxes AS b (box) VALUES (a_box)
  ON CONFLICT (box) DO UPDATE SET term = b.term + 1, at = now()
  RETURNING b.term, b.batch, b.verdicts
$$;

-- The data key of the rows: the first box decides. Returns the id of the key that counts.
CREATE FUNCTION understudy.choose_key(a_key text) RETURNS text
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  UPDATE understudy.state SET key_id = a_key WHERE position = 0;
  SELECT key_id FROM understudy.state
$$;

-- Decides proposals in their order. The lock on the one row of state gives all commits of all boxes one order.
-- Reads and writes are in arrays; the first of each says to which proposal (from 1) an entry belongs.
-- A verdict is the position of the commit, or -1 for a conflict.
CREATE FUNCTION understudy.commit(
  a_box uuid, a_term bigint, a_batch bigint, bases bigint[],
  r_of int[], r_tbl text[], r_first bytea[], r_end bytea[],
  w_of int[], w_tbl text[], w_key bytea[], w_value bytea[]
) RETURNS bigint[] LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
-- The planner takes a young table for small and reads all of it, with the versions that updates have left.
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

-- Forgets commits and boxes that are older, and lets go of removals up to there: sweep removes them. Any box may call
-- both at any time. Two functions, because prune holds back commits.
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

/** Migration to version 1, 2, … */
export const MIGRATIONS: readonly string[] = [VERSION_1];
