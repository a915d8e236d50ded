/**
 * The shared runs in memory, for tests: the reference implementation for ../postgres/runs.ts. It outlives its sessions.
 * Any thread; each instance belongs to one thread.
 */
import {
  type ActorCommit,
  OWNERS,
  type RowPhase,
  type RunsOutcome,
  type RunsSession,
  type RunsTruth,
  type SummedRow,
  type TakenActor,
} from '../shared/runs-truth.ts';
import { type ReadRange, type StoredRow, TruthUnavailableError } from '../shared/truth.ts';
import type { MemoryTruth } from './truth.ts';

interface Owner {
  box: string;
  term: number;
}

interface Box {
  session: number;
  last: RunsSession['last_batch'];
}

/** Greater than any bytes that follow an actor's address in a key. */
const AFTER_NUMBERS = Buffer.alloc(7, 255);
const NUMBER_BYTES = 6;

export class MemoryRuns implements RunsTruth {
  /** Has the rows that all boxes follow. */
  readonly truth: MemoryTruth;
  readonly owners = new Map<string, Owner>();
  readonly boxes = new Map<string, Box>();
  /** By table and key. */
  readonly rows = new Map<string, StoredRow>();
  /** By table, key and name. */
  readonly counts = new Map<string, { table: string; key: Buffer; name: string; sum: number }>();
  /** Whether the actor was taken so recently that another box cannot take it. */
  readonly isHeld: (owner: Owner) => boolean;
  #terms = 0;

  constructor(truth: MemoryTruth, isHeld: (owner: Owner) => boolean = () => false) {
    this.truth = truth;
    this.isHeld = isHeld;
  }

  async open(box: string): Promise<RunsSession> {
    if (this.truth.trouble() !== null) throw new TruthUnavailableError('the database cannot be reached');
    const known = this.boxes.get(box) ?? { session: 0, last: null };
    known.session++;
    this.boxes.set(box, known);
    await turn();
    return new MemoryRunsSession(this, box, known);
  }

  /** Takes actors for a box. */
  take(box: string, actors: readonly Buffer[]): (TakenActor | null)[] {
    const notices: StoredRow[] = [];
    const taken = actors.map((actor): TakenActor | null => {
      const owner = this.owners.get(actor.toString('latin1'));
      const isOther = owner !== undefined && owner.box !== box;
      if (isOther && this.isHeld(owner)) return null;
      const term = ++this.#terms;
      this.owners.set(actor.toString('latin1'), { box, term });
      const number = Buffer.alloc(NUMBER_BYTES);
      number.writeUIntBE(term, 0, NUMBER_BYTES);
      if (isOther) notices.push({ table: OWNERS, key: Buffer.concat([actor, number]), value: null });
      const end = Buffer.concat([actor, AFTER_NUMBERS]);
      const rows = ['snapshots', 'journal'].flatMap((table) => this.find({ table, first: actor, end }));
      return { term, position: isOther ? this.truth.position + 1 : null, rows, damage: null };
    });
    if (notices.length > 0) this.#place(notices);
    return taken;
  }

  store(box: string, commits: readonly ActorCommit[]): RunsOutcome {
    const lost: number[] = [];
    const common: StoredRow[] = [];
    for (const [at, commit] of commits.entries()) {
      const owner = this.owners.get(commit.actor.toString('latin1'));
      if (owner?.box !== box || owner.term !== commit.term) {
        lost.push(at);
        continue;
      }
      for (const phase of commit.phases) this.#change(phase);
      common.push(...commit.common);
      for (const { table, key, name, by } of commit.counts) {
        const place = `${placeOf(table, key)}\0${name}`;
        const sum = (this.counts.get(place)?.sum ?? 0) + by;
        this.counts.set(place, { table, key, name, sum });
      }
    }
    return { lost, position: common.length > 0 ? this.#place(common) : null };
  }

  find({ table, first, end }: ReadRange): StoredRow[] {
    return [...this.rows.values()]
      .filter((row) => row.table === table && row.key.compare(first) >= 0 && row.key.compare(end) < 0)
      .sort((a, b) => a.key.compare(b.key));
  }

  sum({ table, first, end }: ReadRange): SummedRow[] {
    const sums = new Map<string, SummedRow>();
    for (const { table: of, key, name, sum } of this.counts.values()) {
      if (of !== table || key.compare(first) < 0 || key.compare(end) >= 0) continue;
      const row = sums.get(placeOf(table, key)) ?? { key, counts: {} };
      row.counts[name] = sum;
      sums.set(placeOf(table, key), row);
    }
    return [...sums.values()].sort((a, b) => a.key.compare(b.key));
  }

  #place(rows: readonly StoredRow[]): number {
    const position = this.truth.place(rows);
    this.truth.hint();
    return position;
  }

  #change({ removals, rows }: RowPhase): void {
    for (const { limit, ...range } of removals)
      for (const { table, key } of this.find(range).slice(0, limit ?? undefined))
        this.rows.delete(placeOf(table, key));
    for (const row of rows) {
      const place = placeOf(row.table, row.key);
      if (row.value === null) this.rows.delete(place);
      else this.rows.set(place, { ...row, value: Buffer.from(row.value) });
    }
  }
}

class MemoryRunsSession implements RunsSession {
  readonly #runs: MemoryRuns;
  readonly #name: string;
  readonly #box: Box;
  readonly #session: number;
  #isClosed = false;
  /** Resolves after the last call. */
  #calls: Promise<void> = Promise.resolve();

  constructor(runs: MemoryRuns, name: string, box: Box) {
    this.#runs = runs;
    this.#name = name;
    this.#box = box;
    this.#session = box.session;
  }

  get last_batch(): RunsSession['last_batch'] {
    return this.#box.last;
  }

  take(actors: readonly Buffer[]): Promise<(TakenActor | null)[]> {
    return this.#call(() => {
      this.#checkSession();
      return this.#runs.take(this.#name, actors);
    });
  }

  commit(batch: number, commits: readonly ActorCommit[]): Promise<RunsOutcome> {
    return this.#call(() => {
      this.#checkSession();
      const { last } = this.#box;
      if (last?.number === batch) return { lost: last.lost, position: last.position };
      if (batch !== (last?.number ?? 0) + 1) throw new TruthUnavailableError('a batch out of turn');
      const outcome = this.#runs.store(this.#name, commits);
      this.#box.last = { number: batch, ...outcome };
      return outcome;
    });
  }

  readRows(table: string, keys: readonly Buffer[]): Promise<(Buffer | null)[]> {
    return this.#call(() => keys.map((key) => this.#runs.rows.get(placeOf(table, key))?.value ?? null));
  }

  readRange(range: ReadRange, limit: number, reverse: boolean): Promise<StoredRow[]> {
    return this.#call(() => {
      const rows = this.#runs.find(range);
      return (reverse ? rows.reverse() : rows).slice(0, limit);
    });
  }

  sumCounts(range: ReadRange): Promise<SummedRow[]> {
    return this.#call(() => this.#runs.sum(range));
  }

  async tidy(): Promise<void> {}

  async close(): Promise<void> {
    this.#isClosed = true;
  }

  #checkSession(): void {
    if (this.#session !== this.#box.session)
      throw new TruthUnavailableError('this session of the box has ended');
  }

  #call<Value>(work: () => Value): Promise<Value> {
    const answer = this.#calls.then(() => this.#answer(work));
    this.#calls = answer.then(ignore, ignore);
    return answer;
  }

  async #answer<Value>(work: () => Value): Promise<Value> {
    const refuse = () => new TruthUnavailableError('the database cannot be reached');
    await turn();
    const trouble = this.#runs.truth.trouble();
    if (this.#isClosed || trouble === 'lost before') throw refuse();
    const value = work();
    await turn();
    if (this.#isClosed || trouble === 'lost after') throw refuse();
    return value;
  }
}

function placeOf(table: string, key: Buffer): string {
  return `${table}\0${key.toString('latin1')}`;
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function ignore(): void {}
