/**
 * Runs do not depend on the order in which their exchanges are stored. Any order, in any batches and with restarts in
 * between, gives the same runs as the order of arrival. With the real decoders and a real capture file.
 */
import { rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { summarizeRuns } from '../../src/captures/inspect.ts';
import type { CapturedExchange } from '../../src/domain/exchange.ts';
import { inRunOrder } from '../../src/domain/run-order.ts';
import { parseRunQuery } from '../../src/domain/run-query/parse.ts';
import { decodeExchange } from '../../src/providers/decode.ts';
import { createPrng, type Prng } from '../../src/std/prng.ts';
import { FollowedFiles } from '../../src/storage/capture/followed-files.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { removeRunIndex } from '../../src/storage/capture/run-index.ts';
import { databasePaths } from '../../src/storage/lmdb/stores.ts';
import { CaptureList } from '../../src/threads/capture-list.ts';
import { type MadeExchange, makeTraffic } from '../fixtures/agent-traffic.ts';
import { longFrom } from '../long-parts.ts';
import { makeExchange } from './captured.ts';
import { makeFolder } from './folder.ts';

const STAMP = Date.UTC(2026, 0, 2) * 1_024;

const toBytes = (body: unknown): Buffer =>
  Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));

/** The exchange that arrived as the n-th. Its note contains n. */
function capture(made: MadeExchange, n: number): CapturedExchange {
  return makeExchange({
    shape: made.shape,
    path: made.path,
    status: made.status,
    aborted: made.aborted,
    response_headers: ['content-type', made.content_type],
    request_body: toBytes(made.request),
    response_body: toBytes(made.response),
    note: String(n),
    arrival: STAMP + n,
  });
}

function shuffle<T>(items: readonly T[], dice: Prng, reach: number): T[] {
  return items
    .map((item, at) => ({ item, place: at + dice.below(reach + 1) }))
    .sort((a, b) => a.place - b.place)
    .map(({ item }) => item);
}

/** The facts about a run, except for ids, which depend on the order of storage. */
interface ToldRun {
  /** The exchanges of the run, in order. */
  sent: string;
  run_id: string;
  exchanges: number;
  golden: boolean | null;
  codes: string[];
}

function withoutIds({ run_id: _name, ...told }: ToldRun): Omit<ToldRun, 'run_id'> {
  return told;
}

/** A writer, and a list of runs that follows it while it writes. */
class Stored {
  readonly #folder = makeFolder();
  readonly #path = join(this.#folder, 'capture.mdb');
  readonly #files = new FollowedFiles(this.#path, { data_key: null });
  #log: CaptureLog | null = null;
  #list: CaptureList | null = null;

  async store(exchanges: readonly CapturedExchange[], dice: Prng | null): Promise<void> {
    await this.#open();
    for (let at = 0; at < exchanges.length; ) {
      const count = dice === null ? exchanges.length : 1 + dice.below(6);
      await this.#log!.append(exchanges.slice(at, at + count));
      at += count;
      const next = dice?.below(20) ?? 1;
      if (next === 0) await this.#open();
      else if (next < 10) while ((await this.#log!.indexSome(decodeExchange, 1_000)) > 0);
      if (dice?.chance(0.4) === true) this.#look();
    }
    // A busy writer leaves exchanges for a later pass, so this indexes the rest. Readers never index.
    while ((await this.#log!.indexSome(decodeExchange, 1_000)) > 0);
    await this.#log!.close();
  }

  async #open(): Promise<void> {
    await this.#log?.close();
    this.#log = await CaptureLog.open({ path: this.#path, redact: false, decode: decodeExchange });
  }

  /** Reads the list of runs, as the dashboard does. */
  #look(): void {
    this.#list ??= new CaptureList(this.#files, {
      db: this.#path,
      read_from: null,
      data_key: null,
      prices: {},
      databases: databasePaths(dirname(this.#path)),
      owner: { org: null, emails: [], owner: null },
      student: null,
      wires: ['messages'],
      version: '1',
      is_suspect: false,
      reads_ahead: true,
    });
    this.#list.look();
    this.#list.catchUp();
    this.#list.page({ limit: 1_000, after: null, query: parseRunQuery(''), now_ms: 0 }, () => true);
  }

  /** What a command shows about each run. */
  async tell(): Promise<ToldRun[]> {
    const reader = CaptureReader.open(this.#path);
    const told: ToldRun[] = [];
    for (const { run_id, golden, reasons } of (await summarizeRuns(reader)).runs) {
      const own = [...inRunOrder(reader.summaries({ run_id: run_id! }))];
      if (run_id!.startsWith('conv_')) expect(run_id).toBe(`conv_${Math.min(...own.map(({ id }) => id))}`);
      const sent = own.map(({ note }) => note).join(' ');
      told.push({
        run_id: run_id!,
        exchanges: own.length,
        sent,
        golden,
        codes: reasons.map(({ code }) => code),
      });
    }
    await reader.close();
    return told.sort((a, b) => (a.sent < b.sent ? -1 : 1));
  }

  /** The rows of a list that has followed the writer from the start. */
  list(): Map<string, [exchanges: number, golden: boolean | null]> {
    this.#look();
    while (this.#list!.goOn() !== null);
    const { runs } = this.#list!.page(
      { limit: 1_000, after: null, query: parseRunQuery(''), now_ms: 0 },
      () => true,
    );
    return new Map(runs.map(({ run_id, exchanges, golden }) => [run_id, [exchanges, golden]]));
  }

  /** The rows of a list that begins to read now. */
  listAnew(): ReturnType<Stored['list']> {
    this.#list!.close();
    this.#list = null;
    removeRunIndex(this.#path);
    return this.list();
  }

  [Symbol.dispose](): void {
    this.#list?.close();
    this.#files.close();
    rmSync(this.#folder, { recursive: true });
  }
}

/** Labels each exchange with its true run, and numbers it within the run if `hasNumbers`. */
function label(exchanges: readonly CapturedExchange[], made: readonly MadeExchange[], hasNumbers: boolean) {
  const numbers = new Map<string, number>();
  return exchanges.map((exchange, at) => {
    const { truth } = made[at]!;
    const seq = (numbers.get(truth) ?? 0) + 1;
    numbers.set(truth, seq);
    return { ...exchange, run_id: truth, seq: hasNumbers ? seq : null };
  });
}

const PLAN = { runs: 6, turns: 7, twins: 0, failures: 0, same_answers: false };
const TWINS = { ...PLAN, twins: 0.3, failures: 0.2 };

describe('runs', () => {
  const orders = [
    ['without a label, with failures and twins', TWINS, 'none', 4],
    ['with a label and numbers', TWINS, 'numbers', 1_000],
    ['without a label', PLAN, 'none', 3],
    ['without a label, stored in any order at all', PLAN, 'none', 1_000],
    ['with a label', TWINS, 'label', 8],
  ] as const;
  for (const [at, [name, plan, named, reach]] of orders.entries())
    it(`${name} are the same in any order`, longFrom(at, 2), async () => {
      await fc.assert(
        fc.asyncProperty(fc.integer(), async (seed) => {
          const dice = createPrng(seed);
          const made = makeTraffic(createPrng(seed), createPrng, plan);
          const unlabelled = made.map(capture);
          const sent = named === 'none' ? unlabelled : label(unlabelled, made, named === 'numbers');
          using inOrder = new Stored();
          await inOrder.store(sent, null);
          using shuffled = new Stored();
          await shuffled.store(shuffle(sent, dice, reach), dice);
          const told = await shuffled.tell();
          expect(told.map(withoutIds)).toEqual((await inOrder.tell()).map(withoutIds));
          // The lists of a reader that followed from the start, of a reader that begins now, and of a command are
          // equal.
          const listed = shuffled.list();
          expect(listed).toEqual(
            new Map(told.map(({ run_id, exchanges, golden }) => [run_id, [exchanges, golden]])),
          );
          expect(shuffled.listAnew()).toEqual(listed);
        }),
        { numRuns: 8 },
      );
    });
});
