/**
 * The shared rows in memory, for tests: the reference implementation for ../postgres/truth.ts. A MemoryDatabase
 * outlives its sessions. Any thread; each database belongs to one thread.
 */
import { randomUUID } from 'node:crypto';
import {
  type Delta,
  type Mark,
  type Proposal,
  type StoredRow,
  type Truth,
  type TruthSession,
  TruthUnavailableError,
  type Verdict,
} from '../shared/truth.ts';

/** A row, with the position of its last change. */
interface PlacedRow extends StoredRow {
  position: number;
}

interface Box {
  term: number;
  last: TruthSession['last_batch'];
}

/** How a call fails: before the database gets it, or after, when only the answer is lost. */
export type MemoryTrouble = 'lost before' | 'lost after' | null;

export class MemoryTruth implements Truth {
  readonly identity = randomUUID();
  readonly rows = new Map<string, PlacedRow>();
  readonly boxes = new Map<string, Box>();
  readonly hints = new Set<() => void>();
  /** Tokens by position. */
  readonly tokens = new Map<number, string>([[0, randomUUID()]]);
  readonly trouble: () => MemoryTrouble;
  position = 0;

  /** @param trouble called when a session is opened and at each of its calls; returns how the call fails, or null */
  constructor(trouble: () => MemoryTrouble = () => null) {
    this.trouble = trouble;
  }

  async open(box: string, onHint: () => void): Promise<TruthSession> {
    if (this.trouble() !== null) throw new TruthUnavailableError('the database cannot be reached');
    const known = this.boxes.get(box) ?? { term: 0, last: null };
    known.term++;
    this.boxes.set(box, known);
    // As in PostgreSQL, hints may arrive before the session is open.
    this.hints.add(onHint);
    await turn();
    return new MemorySession(this, known, onHint);
  }

  get mark(): Mark {
    return { position: this.position, token: this.tokens.get(this.position)! };
  }

  decide({ base, reads, writes }: Proposal): Verdict {
    const isChanged = reads.some(({ table, first, end }) =>
      [...this.rows.values()].some(
        (row) =>
          row.position > base &&
          row.table === table &&
          row.key.compare(first) >= 0 &&
          row.key.compare(end) < 0,
      ),
    );
    return isChanged ? null : this.place(writes);
  }

  /** Writes rows at the next position. @returns the position */
  place(writes: readonly StoredRow[]): number {
    this.position++;
    this.tokens.set(this.position, randomUUID());
    for (const row of writes)
      this.rows.set(`${row.table}\0${row.key.toString('latin1')}`, { ...row, position: this.position });
    return this.position;
  }

  /** Calls `onHint` of all sessions, because there are new commits. */
  hint(): void {
    for (const hint of this.hints) hint();
  }

  deltaSince(since: number): Delta {
    return { ...this.mark, rows: [...this.rows.values()].filter(({ position }) => position > since) };
  }
}

class MemorySession implements TruthSession {
  readonly #truth: MemoryTruth;
  readonly #box: Box;
  readonly #term: number;
  readonly #onHint: () => void;
  #closed = false;
  #isCalled = false;

  constructor(truth: MemoryTruth, box: Box, onHint: () => void) {
    this.#truth = truth;
    this.#box = box;
    this.#term = box.term;
    this.#onHint = onHint;
  }

  get last_batch(): TruthSession['last_batch'] {
    return this.#box.last;
  }

  commit(
    batch: number,
    proposals: readonly Proposal[],
    since: number,
  ): Promise<{ verdicts: Verdict[]; delta: Delta }> {
    return this.#call(() => {
      if (this.#term !== this.#box.term) throw new TruthUnavailableError('this session of the box has ended');
      const { last } = this.#box;
      if (last?.number === batch)
        return { verdicts: [...last.verdicts], delta: this.#truth.deltaSince(since) };
      if (batch !== (last?.number ?? 0) + 1) throw new TruthUnavailableError('a batch out of turn');
      const verdicts = proposals.map((proposal) => this.#truth.decide(proposal));
      this.#box.last = { number: batch, verdicts };
      this.#truth.hint();
      return { verdicts, delta: this.#truth.deltaSince(since) };
    });
  }

  follow(since: number): Promise<Delta> {
    return this.#call(() => this.#truth.deltaSince(since));
  }

  load(onRows: (rows: StoredRow[]) => void): Promise<Mark> {
    return this.#call(() => {
      const rows = [...this.#truth.rows.values()].filter(({ value }) => value !== null);
      onRows(rows.sort((a, b) => Buffer.from(a.table).compare(Buffer.from(b.table)) || a.key.compare(b.key)));
      return this.#truth.mark;
    });
  }

  knows({ position, token }: Mark): Promise<boolean> {
    return this.#call(() => this.#truth.tokens.get(position) === token);
  }

  async tidy(): Promise<void> {}

  async close(): Promise<void> {
    this.#closed = true;
    this.#truth.hints.delete(this.#onHint);
  }

  async #call<Value>(work: () => Value): Promise<Value> {
    if (this.#isCalled) throw new Error('a call of a session before the last one has ended');
    this.#isCalled = true;
    try {
      return await this.#answer(work);
    } finally {
      this.#isCalled = false;
    }
  }

  async #answer<Value>(work: () => Value): Promise<Value> {
    const refuse = () => new TruthUnavailableError('the database cannot be reached');
    await turn();
    const trouble = this.#truth.trouble();
    if (this.#closed || trouble === 'lost before') throw refuse();
    const value = work();
    await turn();
    if (trouble === 'lost after') throw refuse();
    return value;
  }
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
