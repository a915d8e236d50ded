/**
 * Clients of boxes that share their runs, and the checker of their outcomes. A client adds steps to runs on changing
 * boxes, and notes each outcome: stored at a place, not stored, or unknown after an error. Test thread and child
 * processes of tests.
 */
import type { JournalWrite } from '../../../src/runtime/journal.ts';
import type { RowWrite } from '../../../src/runtime/protocol.ts';
import type { Prng } from '../../../src/std/prng.ts';
import { encodeActor, readHistory } from '../../../src/storage/lmdb/journal.ts';
import { decodeValue } from '../../../src/storage/lmdb/tables.ts';
import { decodeRowKey, encodePrefixEnd, encodeRowKey } from '../../../src/storage/row-key.ts';
import type { RunsSession } from '../../../src/storage/shared/runs-truth.ts';
import type { TableReader } from '../../../src/storage/tables.ts';
import type { RunsBox } from './runs-box.ts';

/** `place`: number of the step in its run; false: not stored; null: unknown. */
interface ToldStep {
  op: 'step';
  run: string;
  id: string;
  place: number | false | null;
}

export type RunTold = ToldStep | { op: 'violation'; text: string };

const KIND = 'run';
const RUN_COUNT = 5;
/** Numbers of steps after which a run writes a snapshot, and after which it writes a row that every box follows. */
const SNAPSHOT_STEPS = 7;
const COMMON_STEPS = 5;
const USAGE_DAY = 'day';

/** Handles a box's runs as the runtime does, one step of a run at a time. */
export class RunHost {
  readonly #box: RunsBox;
  readonly #actors = new Map<string, { ids: string[]; isLost: boolean; isBusy: boolean }>();
  readonly #turns = new Map<string, Promise<unknown>>();

  constructor(box: RunsBox) {
    this.#box = box;
    box.journal.onLost = (addresses) => {
      for (const { key } of addresses) {
        const actor = this.#actors.get(key);
        if (actor === undefined) continue;
        actor.isLost = true;
        if (!actor.isBusy) this.#actors.delete(key);
      }
    };
  }

  /** Adds a step. @returns the step's place; false: the step was not stored; null: unknown */
  addStep(run: string, id: string): Promise<ToldStep['place']> {
    return this.#inTurn(run, async () => {
      const actor = await this.#load(run);
      if (actor === null) return false;
      actor.isBusy = true;
      const place = actor.ids.length + 1;
      const [error, lost] = await this.#commit(writesOf(run, id, [...actor.ids, id]));
      actor.isBusy = false;
      if (error !== null || lost || actor.isLost) this.#actors.delete(run);
      if (error !== null) return null;
      if (lost) return false;
      actor.ids.push(id);
      return place;
    });
  }

  /** Counts the steps of a run. @throws Error if it cannot be read */
  async countSteps(run: string): Promise<number> {
    const actor = this.#actors.get(run);
    if (actor !== undefined && !actor.isLost) return actor.ids.length;
    const [total] = await this.#box.runs.readRows('rows:run_totals', [encodeRowKey([run])]);
    return total == null ? 0 : decodeValue<number>(total)!;
  }

  async #load(run: string) {
    const found = this.#actors.get(run);
    if (found !== undefined && !found.isLost) return found;
    try {
      const ids = readIds(await this.#box.journal.load(KIND, run));
      const actor = { ids, isLost: false, isBusy: false };
      this.#actors.set(run, actor);
      return actor;
    } catch {
      return null;
    }
  }

  #commit(writes: JournalWrite[]): Promise<[Error | null, boolean]> {
    return new Promise((resolve) => {
      this.#box.journal.commit(writes, (error, lost = []) => resolve([error, lost.length > 0]));
    });
  }

  #inTurn<Value>(run: string, work: () => Promise<Value>): Promise<Value> {
    const turn = (this.#turns.get(run) ?? Promise.resolve()).then(work);
    this.#turns.set(
      run,
      turn.catch(() => {}),
    );
    return turn;
  }
}

/** The writes of a step. @param ids all steps, with this one */
function writesOf(run: string, id: string, ids: readonly string[]): JournalWrite[] {
  const place = ids.length;
  const rows: RowWrite[] = [
    { op: 'put', table: 'run_steps', row: [run, place], value: id },
    { op: 'put', table: 'run_totals', row: [run], value: place },
    { op: 'add', table: 'usage', row: [USAGE_DAY], counts: { steps: 1, places: place } },
  ];
  if (place % COMMON_STEPS === 0) rows.push({ op: 'put', table: 'runs', row: [run], value: place });
  const state = Buffer.from(JSON.stringify(ids));
  const writes: JournalWrite[] = [
    { type: 'event', kind: KIND, key: run, seq: place, event: Buffer.from(id) },
    ...rows.map((row): JournalWrite => ({ type: 'row', kind: KIND, key: run, row })),
  ];
  if (place % SNAPSHOT_STEPS === 0)
    writes.push({ type: 'snapshot', kind: KIND, key: run, seq: place, version: 1, state });
  return writes;
}

function readIds({ snapshot, events }: ReturnType<typeof readHistory>): string[] {
  const first = snapshot === null ? [] : (JSON.parse(Buffer.from(snapshot.state).toString()) as string[]);
  return [...first, ...events.map((event) => Buffer.from(event).toString())];
}

export class RunHistoryClient {
  readonly #id: string;
  readonly #random: Prng;
  readonly #tell: (told: RunTold) => void;
  #number = 0;
  /** The highest position that this client has seen, and the number of steps of each run. */
  #seen = 0;
  readonly #counts = new Map<string, number>();

  constructor(id: string, random: Prng, tell: (told: RunTold) => void) {
    this.#id = id;
    this.#random = random;
    this.#tell = tell;
  }

  async step(box: RunsBox, host: RunHost): Promise<void> {
    const run = `run ${this.#random.below(RUN_COUNT)}`;
    if (this.#random.chance(0.3)) return this.#read(run, box, host);
    const id = `${this.#id}/${++this.#number}`;
    const place = await host.addStep(run, id);
    this.#tell({ op: 'step', run, id, place });
    if (typeof place === 'number') this.#note(run, place, box);
  }

  /** Reads on a box after the box has reached the position that this client has seen on other boxes. */
  async #read(run: string, box: RunsBox, host: RunHost): Promise<void> {
    if (!(await box.follower.reach(this.#seen, 50))) return;
    const count = await host.countSteps(run).catch(() => null);
    if (count === null) return;
    const seen = this.#counts.get(run) ?? 0;
    if (count < seen)
      this.#tell({ op: 'violation', text: `${this.#id}: ${run} went back from ${seen} to ${count} steps` });
    this.#note(run, count, box);
  }

  #note(run: string, count: number, box: RunsBox): void {
    this.#counts.set(run, Math.max(count, this.#counts.get(run) ?? 0));
    this.#seen = Math.max(this.#seen, box.follower.position);
  }
}

/**
 * Compares the outcomes of the clients with the runs at the end.
 * @param common the rows that every box follows
 * @returns what is wrong, one line each
 */
export async function judgeRuns(
  told: readonly RunTold[],
  session: RunsSession,
  common: TableReader,
): Promise<string[]> {
  const wrong = told.flatMap((entry) => (entry.op === 'violation' ? [entry.text] : []));
  const stored = new Map<string, string>();
  let [steps, places] = [0, 0];
  for (let at = 0; at < RUN_COUNT; at++) {
    const run = `run ${at}`;
    const ids = await readSteps(session, run);
    steps += ids.length;
    ids.forEach((id, index) => {
      places += index + 1;
      if (stored.has(id)) wrong.push(`${id} is stored twice`);
      stored.set(id, `${run} ${index + 1}`);
    });
    const [taken] = await session.take([encodeActor(KIND, run)]);
    const history = readIds(readHistory(KIND, taken!.rows));
    if (history.join() !== ids.join()) wrong.push(`${run}: its history differs from its steps`);
    const [total] = await session.readRows('rows:run_totals', [encodeRowKey([run])]);
    const count = total == null ? 0 : decodeValue<number>(total);
    if (count !== ids.length) wrong.push(`${run}: there are ${ids.length} steps, but the total is ${count}`);
    const row = common.get<number>('runs', [run]) ?? 0;
    const last = ids.length - (ids.length % COMMON_STEPS);
    if (row !== last) wrong.push(`${run}: the shared row is of step ${row}, not of ${last}`);
  }
  for (const entry of told) {
    if (entry.op !== 'step' || entry.place === null) continue;
    const { run, id, place } = entry;
    if (place === false) {
      if (stored.has(id)) wrong.push(`${id} was refused, but is stored`);
    } else if (stored.get(id) !== `${run} ${place}`)
      wrong.push(`${id} was acknowledged at ${run} ${place}, but is stored at ${stored.get(id)}`);
  }
  const range = { table: 'rows:usage', first: encodeRowKey([USAGE_DAY]), end: encodePrefixEnd([USAGE_DAY]) };
  const usage = (await session.sumCounts(range))[0]?.counts ?? { steps: 0, places: 0 };
  if (usage.steps !== steps || usage.places !== places)
    wrong.push(`there are ${steps} steps (${places}), but the usage is ${usage.steps} (${usage.places})`);
  return wrong;
}

/** The ids of a run's steps. */
async function readSteps(session: RunsSession, run: string): Promise<string[]> {
  const range = { table: 'rows:run_steps', first: encodeRowKey([run]), end: encodePrefixEnd([run]) };
  const rows = await session.readRange(range, 1e6, false);
  return rows.map(({ key, value }, at) => {
    const [, place] = decodeRowKey(key);
    return place === at + 1 ? decodeValue<string>(value!)! : `${run} has step ${place} at ${at + 1}`;
  });
}
