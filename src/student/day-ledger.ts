/**
 * What the student did by day and agent: served, audited, wrong, and saved, kept across restarts in one small file. The
 * student's thread writes it LEDGER_SAVE_MS after a change at the latest, so a crash loses no more; the command line reads it, and server threads.
 */

import { z } from 'zod';
import { LEDGER, LEDGER_SAVE_MS } from '../limits.ts';
import { boundError } from './model/error-bound.ts';
import type { LedgerRow } from './model/ledger-row.ts';
import { readWholeJson, writeWhole } from './whole-file.ts';

const FORMAT = 'svc_student_ledger_v1';

const count = z.int().nonnegative();
const counts = z.object({
  /** Steps. */
  served: count,
  /** Audited answers that were compared with the upstream's, and of those the ones that disagreed. */
  compared: count,
  wrong: count,
  /** Of the served steps, about, with all that was cached. */
  input_tokens: count,
  output_tokens: count,
  /** Millionths of a dollar: what the served steps would have cost; null until one with a price was served. */
  saved_micro_usd: z.number().nullable(),
  /** Conversations that the student had served and the upstream went on with, and what their cold caches cost, about. */
  late: count,
  late_micro_usd: z.number(),
});

const schema = z.object({
  format: z.literal(FORMAT),
  days: z
    .array(
      z.object({
        /** In UTC. */
        day: z.iso.date(),
        agents: z.array(z.tuple([z.string().max(200), counts])).max(LEDGER.agents + 1),
      }),
    )
    .max(LEDGER.days),
});

export type DayCounts = z.output<typeof counts>;

const OTHER_AGENTS = '(other)';

/** The counts, in memory. */
export class DayLedger {
  readonly #days = new Map<string, Map<string, DayCounts>>();

  /** @param kept null: none */
  constructor(kept: LedgerCopy | null = null) {
    for (const { day, agents } of kept ?? []) this.#days.set(day, new Map(structuredClone(agents)));
  }

  /** Adds to an agent's counts of a day; to take back what was counted, below 0. */
  add(nowMs: number, agent: string, more: Partial<DayCounts>): void {
    const day = new Date(nowMs).toISOString().slice(0, 10);
    let agents = this.#days.get(day);
    if (agents === undefined) {
      agents = new Map();
      this.#days.set(day, agents);
      const days = [...this.#days.keys()].sort();
      for (const old of days.slice(0, Math.max(0, days.length - LEDGER.days))) this.#days.delete(old);
    }
    const name = agents.has(agent) || agents.size < LEDGER.agents ? agent : OTHER_AGENTS;
    const its = agents.get(name) ?? emptyCounts();
    agents.set(name, its);
    for (const key of ['served', 'compared', 'wrong', 'input_tokens', 'output_tokens', 'late'] as const)
      its[key] = Math.max(0, its[key] + Math.round(more[key] ?? 0));
    its.late_micro_usd += more.late_micro_usd ?? 0;
    if (typeof more.saved_micro_usd === 'number')
      its.saved_micro_usd = (its.saved_micro_usd ?? 0) + more.saved_micro_usd;
  }

  copy(): LedgerCopy {
    return [...this.#days].map(([day, agents]) => ({ day, agents: structuredClone([...agents]) }));
  }
}

/** As it is kept. */
export type LedgerCopy = { day: string; agents: [string, DayCounts][] }[];

function emptyCounts(): DayCounts {
  return {
    served: 0,
    compared: 0,
    wrong: 0,
    input_tokens: 0,
    output_tokens: 0,
    saved_micro_usd: null,
    late: 0,
    late_micro_usd: 0,
  };
}

/** Each day and agent, the newest day first. */
export function listLedger(copy: LedgerCopy): LedgerRow[] {
  return copy
    .toSorted((a, b) => (a.day < b.day ? 1 : -1))
    .flatMap(({ day, agents }) => agents.map(([agent, its]) => describeCounts(day, agent, its)));
}

/** Each agent over all days that are kept; `day` is the first of them. */
export function sumLedger(copy: LedgerCopy): LedgerRow[] {
  const sums = new Map<string, { day: string; counts: DayCounts }>();
  for (const { day, agents } of copy.toSorted((a, b) => (a.day < b.day ? -1 : 1))) {
    for (const [agent, its] of agents) {
      const sum = sums.get(agent) ?? { day, counts: emptyCounts() };
      sums.set(agent, sum);
      const { counts: all } = sum;
      for (const key of ['served', 'compared', 'wrong', 'input_tokens', 'output_tokens', 'late'] as const)
        all[key] += its[key];
      all.late_micro_usd += its.late_micro_usd;
      if (its.saved_micro_usd !== null)
        all.saved_micro_usd = (all.saved_micro_usd ?? 0) + its.saved_micro_usd;
    }
  }
  return [...sums].map(([agent, { day, counts: all }]) => describeCounts(day, agent, all));
}

function describeCounts(day: string, agent: string, its: DayCounts): LedgerRow {
  const { compared, wrong, saved_micro_usd: saved, late_micro_usd: late_usd, ...others } = its;
  const dollars = (micro: number): number => Math.round(micro) / 1_000_000;
  return {
    day,
    agent,
    ...others,
    compared,
    wrong,
    wrong_at_least: compared === 0 ? null : 1 - boundError(compared - wrong, compared),
    wrong_at_most: compared === 0 ? null : boundError(wrong, compared),
    saved_usd: saved === null ? null : dollars(saved - late_usd),
    late_usd: dollars(late_usd),
  };
}

/**
 * Reads it.
 * @returns null when there is none
 * @throws Error of one line for a file that is no such file, or cannot be read
 */
export async function readLedgerFile(path: string): Promise<LedgerCopy | null> {
  const value = await readWholeJson(path, LEDGER.file_bytes);
  if (value === null) return null;
  const parsed = schema.safeParse(value);
  if (!parsed.success) throw new Error(`${path}: damaged, or of another version`);
  return parsed.data.days;
}

interface LedgerLog {
  warn(fields: object, words: string): void;
}

/** The ledger with its file. */
export class KeptLedger {
  readonly #path: string | null;
  readonly #log: LedgerLog;
  #ledger: DayLedger;
  #timer: NodeJS.Timeout | null = null;
  /** By the monotonic clock, in ms. */
  #savedAt = -Infinity;
  #saving: Promise<void> = Promise.resolve();
  #isRetired = false;

  private constructor(path: string | null, log: LedgerLog, kept: LedgerCopy | null) {
    this.#path = path;
    this.#log = log;
    this.#ledger = new DayLedger(kept);
  }

  /**
   * Goes on from the file, if there is one; a damaged one is told and begun anew.
   * @param path null: in memory alone
   */
  static async open(path: string | null, log: LedgerLog): Promise<KeptLedger> {
    let kept: LedgerCopy | null = null;
    try {
      if (path !== null) kept = await readLedgerFile(path);
    } catch (error) {
      log.warn({ reason: (error as Error).message }, 'the ledger of the student is lost: it begins anew');
    }
    return new KeptLedger(path, log, kept);
  }

  add(agent: string, more: Partial<DayCounts>): void {
    this.#ledger.add(Date.now(), agent, more);
    if (this.#path === null || this.#isRetired) return;
    // The first change after a quiet time is written at once: who asks for the ledger after a first run sees it.
    const wait = Math.max(0, this.#savedAt + LEDGER_SAVE_MS - performance.now());
    this.#timer ??= setTimeout(() => this.#save(), wait).unref();
  }

  copy(): LedgerCopy {
    return this.#ledger.copy();
  }

  /** What the thread before this one counted, later than the file. */
  takeOver(copy: LedgerCopy): void {
    this.#ledger = new DayLedger(copy);
    this.#save();
  }

  /** Another thread has taken over, and writes the file from now on. */
  retire(): void {
    this.#isRetired = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }

  /** Writes what is not written yet. */
  async close(): Promise<void> {
    if (this.#timer !== null) this.#save();
    await this.#saving;
  }

  #save(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    const path = this.#path;
    if (path === null || this.#isRetired) return;
    this.#savedAt = performance.now();
    this.#saving = this.#saving
      .then(() => writeWhole(path, JSON.stringify({ format: FORMAT, days: this.#ledger.copy() })))
      .catch((error: unknown) =>
        this.#log.warn({ reason: (error as Error).message }, 'the ledger of the student could not be kept'),
      );
  }
}
