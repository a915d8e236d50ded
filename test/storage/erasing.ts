/** Starts the writer of `erasing-writer.ts`, and fills and reads databases for the tests of erasures during traffic. */
import { spawn } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { decodeExchange } from '../../src/providers/decode.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { eraseCaptured } from '../../src/storage/erasure.ts';
import { makeExchange } from './captured.ts';

export interface Filled {
  path: string;
  key: Buffer | null;
}

/** Number of exchanges of the run `gone` that are stored at once after the turns. */
export const BATCH = 16;

/** Two sealed files and a live one, in which three runs take turns; the run `gone` contains the secret. */
export async function fillThree({ path, key }: Filled, secret: string, turns = 60): Promise<void> {
  const log = await CaptureLog.open({
    path,
    redact: false,
    data_key: key,
    decode: decodeExchange,
    has_text_index: true,
  });
  const runs = ['keep-a', 'gone', 'keep-b'];
  const talks: { role: string; content: string }[][] = runs.map(() => []);
  for (let turn = 0; turn < turns; turn++) {
    const at = turn % runs.length;
    const run_id = runs[at]!;
    const words = run_id === 'gone' ? secret : `word${turn}`;
    talks[at]!.push({ role: 'user', content: `${run_id} ${words} says ${turn} ${'and so on '.repeat(40)}` });
    const image = {
      type: 'base64',
      media_type: 'image/png',
      data: Buffer.alloc(3_000, run_id).toString('base64'),
    };
    const source = turn % 12 < 3 ? [{ role: 'user', content: [{ type: 'image', source: image }] }] : [];
    const body = { model: 'm', system: 'be brief '.repeat(100), messages: [...talks[at]!, ...source] };
    await log.append([
      makeExchange({
        run_id,
        seq: turn,
        request_body: Buffer.from(JSON.stringify(body)),
        response_body: Buffer.from(JSON.stringify({ content: [{ type: 'text', text: `${words} answer` }] })),
      }),
    ]);
    if (turn === Math.floor(turns / 3) || turn === Math.floor((2 * turns) / 3)) await log.rotate();
  }
  // These exchanges are together in a block that can be unpacked without any other exchange.
  const said = { run_id: 'gone', request_body: Buffer.from(`{"says":"${secret}"}`) };
  await log.append(Array.from({ length: BATCH }, () => makeExchange(said)));
  await log.flush();
  await log.close();
}

/** Each exchange by id: its run, its provider, and both bodies. */
export async function readAll({ path, key }: Filled): Promise<Map<number, string>> {
  const all = new Map<number, string>();
  const folder = join(path, '..');
  for (const name of readdirSync(folder)) {
    if (!/^capture(\.\d+-\d+)?\.mdb$/.test(name)) continue;
    const reader = CaptureReader.open(join(folder, name), { data_key: key });
    for (const { id, run_id, provider } of reader.summaries()) {
      const bodies = (['request', 'response'] as const).map((side) =>
        Buffer.from(reader.body(id, side)!).toString('latin1'),
      );
      all.set(id, JSON.stringify([run_id, provider, ...bodies]));
    }
    await reader.close();
  }
  return all;
}

export const eraseGone = ({ path, key }: Filled) =>
  eraseCaptured(
    {
      data_dir: join(path, '..'),
      capture_db: path,
      data_key: key,
      decode: decodeExchange,
      target: { run_id: 'gone' },
      is_dry: false,
    },
    () => {},
  );

/** A running writer. */
export class Writer {
  readonly lines: string[] = [];
  readonly ended: Promise<NodeJS.Signals | null>;
  readonly #child;
  #told: () => void = () => {};

  /**
   * @param killAt the step at which it kills itself; 0: never
   * @param bucket URL of the bucket for its sealed files
   */
  constructor({ path, key }: Filled, killAt = 0, bucket: string | null = null) {
    const entry = join(import.meta.dirname, 'erasing-writer.ts');
    const argv = [
      entry,
      path,
      key?.toString('hex') ?? '-',
      String(killAt),
      ...(bucket === null ? [] : [bucket]),
    ];
    this.#child = spawn(process.execPath, argv, { stdio: ['ignore', 'pipe', 'inherit'] });
    createInterface(this.#child.stdout).on('line', (line) => {
      this.lines.push(line);
      this.#told();
    });
    this.ended = new Promise((resolve) => {
      this.#child.on('close', (_code, signal) => {
        resolve(signal);
        this.#told();
      });
    });
  }

  /** Waits for the next line that begins like this. @returns null if the process ends before */
  async next(beginning: string): Promise<string | null> {
    let isOver = false;
    void this.ended.then(() => {
      isOver = true;
    });
    for (let at = this.lines.length; ; ) {
      for (; at < this.lines.length; at++) if (this.lines[at]!.startsWith(beginning)) return this.lines[at]!;
      if (isOver) return null;
      await new Promise<void>((resolve) => {
        this.#told = resolve;
      });
      await Promise.resolve();
    }
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.ended;
  }
}
