/**
 * Counts by day and agent what the student served, audited, got wrong and saved. One small file keeps the counts across
 * restarts. The student's thread writes the file at most LEDGER_SAVE_MS after a change, so a crash loses at most the
 * counts of that time. The command line and server threads read the file.
 */

import { z } from 'zod';
import type { LedgerReport, LedgerRow, LedgerTotal } from '../domain/student-ledger.ts';
import { boundError } from './model/error-bound.ts';
import { readWholeJson, writeWhole } from './whole-file.ts';

/**
 * Maximum number of days of the ledger (the oldest are dropped), of agents per day (further ones count as
 * OTHER_AGENTS), and of bytes of the ledger's file.
 */
export const LEDGER = { days: 90, agents: 100, file_bytes: 8 << 20 } as const;
/** How soon a change of the ledger is written. */
const LEDGER_SAVE_MS = 2_000;

const FORMAT = 'svc_student_ledger_v1';

const count = z.int().nonnegative();
const counts = z.object({
  /** Served steps. */
  served: count,
  /** Audited answers that were compared with the upstream's, and how many of them disagreed. */
  compared: count,
  wrong: count,
  /** Approximate tokens of the served steps, cached ones included. */
  input_tokens: count,
  output_tokens: count,
  /** Millionths of a dollar that the served steps would have cost; null until a step with a known price was served. */
  saved_micro_usd: z.number().nullable(),
  /** Served steps whose price is unknown, and served steps whose price is that of a model with a similar name. */
  unpriced: count,
  guessed: count,
  /**
   * Conversations that the student served and the upstream continued, and the approximate cost of their cold caches.
   */
  late: count,
  late_micro_usd: z.number(),
});

const schema = z.object({
  format: z.literal(FORMAT),
  days: z
    .array(
      z.object({
        /** The day in UTC. */
        day: z.iso.date(),
        agents: z.array(z.tuple([z.string().max(200), counts])).max(LEDGER.agents + 1),
      }),
    )
    .max(LEDGER.days),
});

type DayCounts = z.output<typeof counts>;

const OTHER_AGENTS = '(other)';

/** Counts that are summed as whole numbers and never fall below 0. The amounts in dollars are summed separately. */
const SUMMED = [
  'served',
  'compared',
  'wrong',
  'input_tokens',
  'output_tokens',
  'unpriced',
  'guessed',
  'late',
] as const;

/** The counts, in memory. */
export class DayLedger {
  readonly #days = new Map<string, Map<string, DayCounts>>();

  /** @param kept the stored counts; null: start empty */
  constructor(kept: LedgerCopy | null = null) {
    for (const { day, agents } of kept ?? []) this.#days.set(day, new Map(structuredClone(agents)));
  }

  /** Adds to an agent's counts of a day; negative amounts subtract. */
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
    const counts = agents.get(name) ?? emptyCounts();
    agents.set(name, counts);
    for (const key of SUMMED) counts[key] = Math.max(0, counts[key] + Math.round(more[key] ?? 0));
    counts.late_micro_usd += more.late_micro_usd ?? 0;
    if (typeof more.saved_micro_usd === 'number')
      counts.saved_micro_usd = (counts.saved_micro_usd ?? 0) + more.saved_micro_usd;
  }

  copy(): LedgerCopy {
    return [...this.#days].map(([day, agents]) => ({ day, agents: structuredClone([...agents]) }));
  }
}

/** The ledger as the file stores it. */
export type LedgerCopy = { day: string; agents: [string, DayCounts][] }[];

function emptyCounts(): DayCounts {
  return {
    served: 0,
    compared: 0,
    wrong: 0,
    input_tokens: 0,
    output_tokens: 0,
    saved_micro_usd: null,
    unpriced: 0,
    guessed: 0,
    late: 0,
    late_micro_usd: 0,
  };
}

/** One entry per day and agent, newest day first. */
export function listLedger(copy: LedgerCopy): LedgerRow[] {
  return copy
    .toSorted((a, b) => (a.day < b.day ? 1 : -1))
    .flatMap(({ day, agents }) => agents.map(([agent, counts]) => describeCounts(day, agent, counts)));
}

/** One entry per agent over all stored days; `day` is the agent's first day. */
export function sumLedger(copy: LedgerCopy): LedgerRow[] {
  const sums = new Map<string, { day: string; counts: DayCounts }>();
  for (const { day, agents } of copy.toSorted((a, b) => (a.day < b.day ? -1 : 1))) {
    for (const [agent, counts] of agents) {
      const sum = sums.get(agent) ?? { day, counts: emptyCounts() };
      sums.set(agent, sum);
      addCounts(sum.counts, counts);
    }
  }
  return [...sums].map(([agent, { day, counts: all }]) => describeCounts(day, agent, all));
}

/** The sum over all agents and stored days: the figures that every screen, command and metric shows. */
export function totalLedger(copy: LedgerCopy): LedgerTotal {
  const all = emptyCounts();
  for (const { agents } of copy) for (const [, counts] of agents) addCounts(all, counts);
  const since = copy.map(({ day }) => day).sort()[0] ?? null;
  const { day: _day, agent: _agent, ...total } = describeCounts('', '', all);
  return { since, ...total };
}

/** The ledger as a thread or a reader of the file reports it. */
export function reportLedger(copy: LedgerCopy): LedgerReport {
  return { ledger: sumLedger(copy), ledger_total: totalLedger(copy) };
}

function addCounts(sum: DayCounts, more: DayCounts): void {
  for (const key of SUMMED) sum[key] += more[key];
  sum.late_micro_usd += more.late_micro_usd;
  if (more.saved_micro_usd !== null) sum.saved_micro_usd = (sum.saved_micro_usd ?? 0) + more.saved_micro_usd;
}

function describeCounts(day: string, agent: string, counts: DayCounts): LedgerRow {
  const { compared, wrong, saved_micro_usd: saved, late_micro_usd: late_usd, ...otherCounts } = counts;
  // Rounded to a billionth of a dollar, so that rows add up to the total.
  const dollars = (micro: number): number => Math.round(micro * 1_000) / 1_000_000_000;
  return {
    day,
    agent,
    ...otherCounts,
    compared,
    wrong,
    wrong_at_least: compared === 0 ? null : 1 - boundError(compared - wrong, compared),
    wrong_at_most: compared === 0 ? null : boundError(wrong, compared),
    saved_usd: saved === null && late_usd === 0 ? null : dollars((saved ?? 0) - late_usd),
    late_usd: dollars(late_usd),
  };
}

/**
 * Reads the ledger from its file.
 * @returns null when there is no file
 * @throws Error with a one-line message for a file that is damaged or cannot be read
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
  /** Time of the last write by the monotonic clock, in ms. */
  #savedAt = -Infinity;
  #saving: Promise<void> = Promise.resolve();
  #isRetired = false;

  private constructor(path: string | null, log: LedgerLog, kept: LedgerCopy | null) {
    this.#path = path;
    this.#log = log;
    this.#ledger = new DayLedger(kept);
  }

  /**
   * Continues from the file, if there is one. A file that cannot be read is logged, and the ledger starts empty.
   * @param path null: keep the ledger only in memory
   */
  static async open(path: string | null, log: LedgerLog): Promise<KeptLedger> {
    let kept: LedgerCopy | null = null;
    try {
      if (path !== null) kept = await readLedgerFile(path);
    } catch (error) {
      log.warn(
        { reason: (error as Error).message },
        'the ledger of the student cannot be read: it starts empty, and will replace the file',
      );
    }
    return new KeptLedger(path, log, kept);
  }

  add(agent: string, more: Partial<DayCounts>): void {
    this.#ledger.add(Date.now(), agent, more);
    if (this.#path === null || this.#isRetired) return;
    // Write the first change after a quiet time at once, so that a reader sees it after a first run.
    const wait = Math.max(0, this.#savedAt + LEDGER_SAVE_MS - performance.now());
    this.#timer ??= setTimeout(() => this.#save(), wait).unref();
  }

  copy(): LedgerCopy {
    return this.#ledger.copy();
  }

  /** Replaces the counts by those of the previous thread, which are newer than the file, and writes them. */
  takeOver(copy: LedgerCopy): void {
    this.#ledger = new DayLedger(copy);
    this.#save();
  }

  /** Ends the writing, because another thread has taken over and writes the file from now on. */
  retire(): void {
    this.#isRetired = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }

  /** Writes what has not been written yet, so that readers of the file see the present counts. */
  async flush(): Promise<void> {
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
        this.#log.warn(
          { reason: (error as Error).message },
          'the ledger of the student could not be written: a restart now would lose the latest counts',
        ),
      );
  }
}
