/** `understudy trace` on a gateway's capture databases: live, rotated, damaged, interrupted. */
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import Anthropic from '@anthropic-ai/sdk';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CaptureFiles } from '../../src/captures/capture-files.ts';
import { runInspect } from '../../src/cli/inspect.ts';
import { runTrace, type TraceSurroundings } from '../../src/cli/trace.ts';
import { type FakeProvider, startFakeProvider } from '../../src/demo/fake-provider.ts';
import type { ScriptedAnswer, ScriptRequest } from '../../src/demo/script.ts';
import { RUNS } from '../../src/domain/run-rows.ts';
import { decodeExchange } from '../../src/providers/decode.ts';
import { type CaptureEnv, listSealed, openCaptureEnv } from '../../src/storage/capture/layout.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import type { DecodeExchange } from '../../src/storage/capture/stored-copy.ts';
import { LmdbTables } from '../../src/storage/lmdb/tables.ts';
import {
  type CaptureGateway,
  flush,
  startCaptureGateway,
  waitForStats,
} from '../fixtures/capture-gateway.ts';
import { makeExchange } from '../storage/captured.ts';
import { runCli } from './child.ts';
import { runHere } from './here.ts';

let folder = '';
let provider: FakeProvider;
beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'trace-'));
  provider = await startFakeProvider({ script });
});
afterAll(async () => {
  await provider.close();
  rmSync(folder, { recursive: true, force: true });
});

/** A model that reads two files and then ends. `overloaded` and `hangs` in the task make it fail accordingly. */
let overloads = 0;
function script({ text, messages }: ScriptRequest): ScriptedAnswer {
  if (text.includes('overloaded') && overloads++ === 0)
    return { error: { status: 529, message: 'Overloaded' } };
  if (text.includes('hangs')) return { text: 'I begin and never end', hold_after_frames: 3 };
  if (messages < 5) return { text: 'Looking.', tool_calls: [{ name: 'read', input: { at: messages } }] };
  return { text: 'Done.' };
}

const TOOLS: Anthropic.Tool[] = [{ name: 'read', input_schema: { type: 'object' } }];

/** Runs a task through the gateway as an agent would. */
async function runTask(
  gateway: CaptureGateway,
  task: string,
  labels: {
    run?: string;
    seqs?: (turn: number) => number | null;
    between?: (turn: number) => Promise<unknown>;
  } = {},
): Promise<void> {
  const client = new Anthropic({ baseURL: gateway.url, apiKey: 'none', maxRetries: 2 });
  const messages: Anthropic.MessageParam[] = [{ role: 'user', content: task }];
  for (let turn = 1; ; turn += 1) {
    const seq = labels.seqs === undefined ? turn : labels.seqs(turn);
    const headers: Record<string, string> = {};
    if (labels.run !== undefined) headers['x-svc-run'] = labels.run;
    if (labels.run !== undefined && seq !== null) headers['x-svc-seq'] = String(seq);
    const params = { model: 'claude-demo', max_tokens: 64, tools: TOOLS, system: 'You read.', messages };
    const message =
      turn % 2 === 0
        ? await client.messages.stream(params, { headers }).finalMessage()
        : await client.messages.create(params, { headers });
    const calls = message.content.filter((block) => block.type === 'tool_use');
    if (calls.length === 0) return;
    messages.push(
      { role: 'assistant', content: message.content },
      {
        role: 'user',
        content: calls.map(({ id }) => ({ type: 'tool_result', tool_use_id: id, content: `file ${turn}` })),
      },
    );
    await labels.between?.(turn);
  }
}

interface Traced {
  status: number;
  out: string;
  err: string;
  // biome-ignore lint/suspicious/noExplicitAny: lines of JSON that the tests look into
  lines: any[];
}

async function trace(argv: string[], more: TraceSurroundings & { terminal?: boolean } = {}): Promise<Traced> {
  const chunks: Buffer[] = [];
  let err = '';
  const status = await runTrace(
    argv,
    {
      out: async (data) => void chunks.push(Buffer.from(data as Uint8Array)),
      err: (text) => {
        err += text;
      },
      is_terminal: more.terminal ?? false,
      shows_progress: more.terminal ?? false,
      has_color: false,
    },
    { said_in: [], ...more },
  );
  const out = Buffer.concat(chunks).toString();
  const isLines = out.startsWith('{');
  return { status, out, err, lines: isLines ? parseLines(out) : [] };
}

// biome-ignore lint/suspicious/noExplicitAny: lines of JSON that the tests look into
const parseLines = (text: string): any[] =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));

const codesOf = (line: { provenance: { reasons: { code: string }[] } }): string[] =>
  line.provenance.reasons.map(({ code }) => code);

describe('trace of what a gateway captured', () => {
  it('continues after a body that is nested deeper than the stack', {
    tags: 'long',
    timeout: 30_000,
  }, async () => {
    const db = path.join(folder, 'deep.mdb');
    const gateway = await startCaptureGateway({ upstream: provider.url, db });
    try {
      const input = `${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}`;
      const body = `{"model":"claude-demo","max_tokens":9,"messages":[{"role":"user","content":"deep"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"read","input":${input}}]}]}`;
      const headers = {
        'content-type': 'application/json',
        'x-api-key': 'none',
        'x-svc-run': 'deep',
        'x-svc-seq': '1',
      };
      const answer = await fetch(`${gateway.url}/v1/messages`, { method: 'POST', headers, body });
      expect(answer.status).toBe(200);
      await answer.text();
      await runTask(gateway, 'plain task', { run: 'plain' });
      await waitForStats(gateway.url, ({ exchanges }) => exchanges.in_flight === 0);
      await flush(gateway.url);

      const { status, lines, err } = await trace(['--db', db]);
      expect([status, err]).toEqual([0, '']);
      expect(lines.map((line) => [line.run_id, codesOf(line)])).toEqual([
        ['deep', ['undecodable', 'unfinished']],
        ['plain', []],
      ]);
      for (const argv of [[], ['--json']]) {
        const shown = await runCli(['inspect', '--db', db, '--run', 'deep', ...argv]);
        expect([shown.code, shown.stderr]).toEqual([0, '']);
      }
    } finally {
      await gateway.close();
    }
  });

  it('contains labelled and unlabelled runs of a live database, and reports retries, gaps and aborts', async () => {
    const db = path.join(folder, 'live.mdb');
    const gateway = await startCaptureGateway({ upstream: provider.url, db, note: 'nightly' });
    try {
      overloads = 0;
      await runTask(gateway, 'plain task', { run: 'labelled' });
      await runTask(gateway, 'overloaded at first', { run: 'retried' });
      await runTask(gateway, 'gap', { run: 'gappy', seqs: (turn) => (turn > 1 ? turn + 2 : turn) });
      await Promise.all([runTask(gateway, 'unlabelled'), runTask(gateway, 'nor me')]);
      const client = new Anthropic({ baseURL: gateway.url, apiKey: 'none', maxRetries: 0 });
      const headers = { 'x-svc-run': 'aborted', 'x-svc-seq': '1' };
      const hanging = client.messages.stream(
        { model: 'claude-demo', max_tokens: 9, messages: [{ role: 'user', content: 'hangs' }] },
        { headers },
      );
      await new Promise<void>((resolve) => hanging.once('streamEvent', () => resolve()));
      hanging.abort();
      await hanging.done().catch(() => undefined);
      await waitForStats(gateway.url, ({ exchanges }) => exchanges.in_flight === 0);
      await flush(gateway.url);

      const { status, lines, err } = await trace(['--db', db]);
      expect([status, err]).toEqual([0, '']);
      expect(lines).toHaveLength(6);
      const byTask = new Map(lines.map((line) => [line.task, line]));
      const plain = byTask.get('plain task');
      expect(plain).toMatchObject({ run_id: 'labelled', provider: 'anthropic', note: 'nightly' });
      expect(plain.turns.map((turn: { seq: number }) => turn.seq)).toEqual([1, 2, 3]);
      expect(plain.turns.map((turn: { stop_reason: string }) => turn.stop_reason)).toEqual([
        'tool_use',
        'tool_use',
        'end_turn',
      ]);
      expect(plain.turns[1].messages_added).toEqual([
        {
          role: 'tool',
          content: [
            {
              type: 'tool_result',
              call_id: plain.turns[0].content.at(-1).id,
              name: 'read',
              is_error: false,
              content: [{ type: 'text', text: 'file 1' }],
            },
          ],
        },
      ]);
      expect(plain.provenance).toMatchObject({
        exchanges: 3,
        complete: true,
        supports_universal_claims: true,
      });
      expect(byTask.get('overloaded at first').provenance).toMatchObject({
        exchanges: 4,
        supports_universal_claims: true,
      });
      expect(byTask.get('overloaded at first').turns).toHaveLength(3);
      expect(byTask.get('gap').provenance).toMatchObject({ gaps: [[2, 3]], complete: false });
      expect(codesOf(byTask.get('gap'))).toEqual(['seq_gap']);
      for (const task of ['unlabelled', 'nor me']) {
        expect(byTask.get(task).provenance).toMatchObject({
          exchanges: 3,
          first_seq: null,
          supports_universal_claims: true,
        });
      }
      const aborted = lines.find((line) => line.run_id === 'aborted');
      expect(codesOf(aborted)).toContain('aborted');
      expect(aborted.provenance.supports_universal_claims).toBe(false);

      // The gateway continues to write. A second reading gives the same lines, and new lines after them.
      await runTask(gateway, 'one more', { run: 'later' });
      await flush(gateway.url);
      const again = await trace(['--db', db]);
      expect(again.lines.slice(0, 6)).toEqual(lines);
      expect(again.lines.map((line) => line.run_id).at(-1)).toBe('later');
      const retried = await trace(['--db', db, '--run', 'retried']);
      expect(retried.lines).toEqual([byTask.get('overloaded at first')]);
      const none = await trace(['--db', db, '--run', 'unknown']);
      expect(none).toMatchObject({ status: 1, out: '' });
      expect(none.err).toContain('has no run "unknown"');
    } finally {
      await gateway.close();
    }
  });

  it('follows runs through rotations, labelled or not, and can read a sealed file alone', async () => {
    const db = path.join(folder, 'turned.mdb');
    const gateway = await startCaptureGateway({ upstream: provider.url, db });
    try {
      const rotate = async (): Promise<void> => {
        const response = await fetch(`${gateway.url}/__gw/rotate`, { method: 'POST' });
        expect(response.status).toBe(200);
      };
      await runTask(gateway, 'before', { run: 'early' });
      await runTask(gateway, 'across', { run: 'spanning', between: rotate });
      await runTask(gateway, 'across, no label', { between: rotate });
      await flush(gateway.url);
      expect(listSealed(db)).toHaveLength(4);
      const { lines } = await trace(['--db', db]);
      expect(lines.map(({ task }) => task)).toEqual(['before', 'across', 'across, no label']);
      for (const line of lines) {
        expect(line.turns).toHaveLength(3);
        expect(line.provenance).toMatchObject({ exchanges: 3, supports_universal_claims: true, reasons: [] });
      }
      expect(lines[1].turns.map((turn: { exchange_id: number }) => turn.exchange_id)).toEqual([4, 5, 6]);
      const [first] = listSealed(db);
      const alone = await trace(['--db', first!.path]);
      expect(alone.lines.map(({ task }) => task)).toEqual(['before', 'across']);
      expect(codesOf(alone.lines[1])).toEqual(['unfinished']);

      // A trace that has begun keeps its view of the file when the file is sealed.
      const files = await CaptureFiles.open(db);
      await runTask(gateway, 'after', { run: 'late' });
      await rotate();
      const seen = [...files.exchanges()].map(({ id }) => id);
      expect(seen).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
      expect(files.copy(9)?.response_body.byteLength).toBeGreaterThan(0);
      await files.close();
      expect((await trace(['--db', db])).lines).toHaveLength(4);
    } finally {
      await gateway.close();
    }
  });

  it('consists of whole lines at any moment while the gateway writes and rotates', {
    tags: 'long',
  }, async () => {
    const db = path.join(folder, 'busy.mdb');
    const gateway = await startCaptureGateway({ upstream: provider.url, db });
    try {
      let left = 12;
      const work = Promise.all(
        Array.from({ length: left }, async (_, i) => {
          await runTask(gateway, `task ${i}`, i % 2 === 0 ? { run: `run-${i}` } : {});
          left -= 1;
        }),
      );
      let known: string[] = [];
      let looked = 0;
      do {
        await flush(gateway.url);
        if (looked === 2) await fetch(`${gateway.url}/__gw/rotate`, { method: 'POST' });
        const { status, lines } = await trace(['--db', db]);
        expect(status).toBe(0);
        const runs = lines.map((line) => line.run_id);
        // Earlier lines keep their places, and new lines follow them.
        expect(runs.slice(0, known.length)).toEqual(known);
        known = runs;
        looked += 1;
      } while (left > 0);
      await work;
      await flush(gateway.url);
      const { lines } = await trace(['--db', db]);
      expect(lines).toHaveLength(12);
      for (const line of lines) expect(line.provenance).toMatchObject({ exchanges: 3, reasons: [] });
    } finally {
      await gateway.close();
    }
  });

  it('pairs the calls of an unlabelled Gemini run, and says that such runs are never golden', {
    tags: 'long',
  }, async () => {
    const db = path.join(folder, 'gemini.mdb');
    const gateway = await startCaptureGateway({ upstream: provider.url, db });
    try {
      const contents: { role: string; parts: object[] }[] = [{ role: 'user', parts: [{ text: 'Go.' }] }];
      for (let turn = 1; turn <= 3; turn += 1) {
        const verb = turn === 2 ? 'streamGenerateContent?alt=sse' : 'generateContent';
        const response = await fetch(`${gateway.url}/v1beta/models/gemini-x:${verb}`, {
          method: 'POST',
          headers: { 'x-goog-api-key': 'none', 'content-type': 'application/json' },
          body: JSON.stringify({ contents, tools: [{ functionDeclarations: [{ name: 'read' }] }] }),
        });
        expect(response.status).toBe(200);
        await response.arrayBuffer();
        const call = { functionCall: { name: 'read', args: { at: 2 * turn - 1 } } };
        const result = { functionResponse: { name: 'read', response: { output: `file ${turn}` } } };
        contents.push(
          { role: 'model', parts: [{ text: 'Looking.' }, call] },
          { role: 'user', parts: [result] },
        );
      }
      const count = await fetch(`${gateway.url}/v1beta/models/gemini-x:countTokens`, {
        method: 'POST',
        headers: { 'x-goog-api-key': 'none' },
        body: JSON.stringify({ contents }),
      });
      await count.arrayBuffer();
      await flush(gateway.url);
      const { lines } = await trace(['--db', db]);
      expect(lines).toHaveLength(1);
      const [{ turns, model, provenance }] = lines;
      expect(model).toBe('gemini-x');
      expect(turns.map((turn: { stop_reason: string }) => turn.stop_reason)).toEqual([
        'tool_use',
        'tool_use',
        'end_turn',
      ]);
      for (const i of [0, 1]) {
        const { id } = turns[i].content.at(-1);
        expect(turns[i + 1].messages_added).toMatchObject([
          { role: 'tool', content: [{ type: 'tool_result', call_id: id, name: 'read' }] },
        ]);
      }
      expect(provenance).toMatchObject({ exchanges: 3, complete: true, supports_universal_claims: false });
      expect(codesOf(lines[0])).toEqual(['shape']);
    } finally {
      await gateway.close();
    }
  });

  it('takes the outcome from the monitor run with the same id', async () => {
    const db = path.join(folder, 'live.mdb');
    const tables = new LmdbTables(path.join(folder, 'runs.mdb'), 'process');
    const row = (run_id: string, status: string, outcome: string) => ({ run_id, status, outcome });
    const rows = [
      row('labelled', 'finished', 'failure_wrong_file'),
      row('retried', 'finished', 'success'),
      row('later', 'running', ''),
    ];
    await tables.transact((transaction) => {
      for (const value of rows)
        transaction.write({ table: RUNS, row: ['org', 'p', value.run_id], op: 'put', value });
    });
    await tables.close();
    const { lines } = await trace(['--db', db], { said_in: [folder] });
    const byRun = new Map(lines.map((line) => [line.run_id, line]));
    expect(byRun.get('labelled').outcome).toBe('failure_wrong_file');
    expect(codesOf(byRun.get('labelled'))).toEqual(['outcome']);
    expect(byRun.get('retried')).toMatchObject({
      outcome: 'success',
      provenance: { supports_universal_claims: true },
    });
    expect(byRun.get('later')).toMatchObject({
      outcome: null,
      provenance: { supports_universal_claims: true },
    });
    // The table of inspect and the page of a run give the same verdict on each run.
    const quiet = { err: () => {}, is_terminal: false, has_color: false };
    const inspect = async (...argv: string[]) => {
      const told: string[] = [];
      const io = { ...quiet, out: async (data: string | Uint8Array) => void told.push(data.toString()) };
      expect(await runInspect(['--db', db, '--json', ...argv], io, { said_in: [folder] })).toBe(0);
      return JSON.parse(told.join(''));
    };
    const table = await inspect();
    expect(table.runs).toHaveLength(lines.length);
    for (const shown of table.runs) {
      const line = byRun.get(shown.run_id);
      expect([shown.golden, shown.outcome]).toEqual([
        line.provenance.supports_universal_claims,
        line.outcome,
      ]);
      const { run } = await inspect('--run', shown.run_id);
      expect(run).toMatchObject({ golden: shown.golden, outcome: line.outcome });
      expect(run.reasons).toEqual(line.provenance.reasons);
    }
  });
});

describe('trace --out', () => {
  it('names the file only when it is complete, and shows progress only on a terminal', async () => {
    const db = path.join(folder, 'live.mdb');
    const out = path.join(folder, 'all.jsonl');
    const { lines } = await trace(['--db', db]);
    let clock = 0;
    const told = await trace(['--db', db, '--out', out], { terminal: true, now: () => (clock += 1000) });
    expect(told.out).toMatch(/^7 runs, \d+ turns, 5 golden: .*all\.jsonl\n$/);
    expect(told.err).toContain('run 7 of 7 (100 %)');
    expect(parseLines(readFileSync(out, 'utf8'))).toEqual(lines);
    expect(existsSync(`${out}.partial`)).toBe(false);
    expect(existsSync(`${out}.partial.json`)).toBe(false);
    expect((await trace(['--db', db, '--out', out])).err).toBe('');
    // Standard output has only lines of the trace, and no progress.
    expect((await trace(['--db', db], { terminal: true })).err).toBe('');
  });

  it('says which runs may lack exchanges that are not indexed yet', async () => {
    const db = path.join(mkdtempSync(path.join(folder, 'behind-')), 'capture.mdb');
    const began = 1_760_000_000_000;
    const store = async (decode: DecodeExchange | undefined, turns: readonly [string, number][]) => {
      const log = await CaptureLog.open({ path: db, redact: true, ...(decode && { decode }) });
      for (const [run_id, started_at_ms] of turns) {
        const request = { model: 'm', messages: [{ role: 'user', content: `begin ${run_id}` }] };
        const answer = { content: [{ type: 'text', text: 'Done.' }], stop_reason: 'end_turn' };
        const encode = (body: object) => Buffer.from(JSON.stringify(body));
        const bodies = { request_body: encode(request), response_body: encode(answer) };
        await log.append([makeExchange({ run_id, seq: 1, started_at_ms, ...bodies })]);
      }
      await log.flush();
      await log.close();
    };
    await store(decodeExchange, [
      ['old', began],
      ['recent', began + 3_600_000],
    ]);
    expect((await trace(['--db', db])).lines.map(codesOf)).toEqual([[], []]);
    await store(undefined, [['recent', began + 3_660_000]]);
    const { lines, err } = await trace(['--db', db]);
    expect(err).toContain('1 exchange');
    expect(lines.map(codesOf)).toEqual([[], ['not_indexed']]);
    expect(lines.map(({ provenance }) => provenance.complete)).toEqual([true, false]);
    expect(lines[1].provenance.reasons[0].words).toBe(
      'it may have more exchanges: 1 stored exchange not indexed yet',
    );
  });

  it('continues after an interruption at different points', async () => {
    const db = path.join(folder, 'live.mdb');
    const whole = path.join(folder, 'all.jsonl');
    let bodies = 0;
    const open = async (file: string): Promise<CaptureFiles> => {
      const files = await CaptureFiles.open(file);
      const copy = files.copy.bind(files);
      files.copy = (id) => {
        bodies += 1;
        return copy(id);
      };
      return files;
    };
    await trace(['--db', db], { open });
    const all = bodies;
    for (const stopAt of [1, 7, 14, 19]) {
      const out = path.join(folder, `stopped-${stopAt}.jsonl`);
      const stopping = async (file: string): Promise<CaptureFiles> => {
        const files = await open(file);
        const copy = files.copy.bind(files);
        files.copy = (id) => {
          if (id === stopAt) throw new Error('the machine went away');
          return copy(id);
        };
        return files;
      };
      await expect(trace(['--db', db, '--out', out], { open: stopping })).rejects.toThrow('went away');
      expect(existsSync(out)).toBe(false);
      // A half-written line in the file and in the journal, as after a crash.
      writeFileSync(`${out}.partial`, '{"format":"svc_tr', { flag: 'a' });
      writeFileSync(`${out}.partial.json`, '{"run_id":"x', { flag: 'a' });
      bodies = 0;
      expect((await trace(['--db', db, '--out', out], { open })).status).toBe(0);
      // Complete runs are not read again.
      if (stopAt === 1) expect(bodies).toBe(all);
      else expect(bodies).toBeLessThan(all);
      expect(readFileSync(out, 'utf8')).toBe(readFileSync(whole, 'utf8'));
    }
  });

  it('does not continue the interrupted trace of another database', async () => {
    const out = path.join(folder, 'other.jsonl');
    writeFileSync(`${out}.partial`, 'x'.repeat(5000));
    const line = {
      run_id: 'labelled',
      exchanges: 3,
      last_id: 3,
      outcome: null,
      end: 4000,
      golden: true,
      turns: 3,
    };
    writeFileSync(
      `${out}.partial.json`,
      `{"format":"svc_trace_v1","db":"/else","run":null}\n${JSON.stringify(line)}\n`,
    );
    expect((await trace(['--db', path.join(folder, 'live.mdb'), '--out', out])).status).toBe(0);
    expect(readFileSync(out, 'utf8')).toBe(readFileSync(path.join(folder, 'all.jsonl'), 'utf8'));
  });
});

describe('trace of an incomplete database', () => {
  it('fails with one line that names the file', async () => {
    const source = path.join(folder, 'turned.mdb');
    const [sealed] = listSealed(source);
    const bytes = readFileSync(sealed!.path);
    const cases: [name: string, make: (file: string) => void, words: RegExp][] = [
      ['missing.mdb', () => undefined, /no such capture database/],
      ['text.mdb', (file) => writeFileSync(file, 'not a database'), /not a capture database/],
      ['empty.mdb', (file) => writeFileSync(file, ''), /not a capture database/],
      [
        'half.mdb',
        (file) => {
          writeFileSync(file, bytes);
          truncateSync(file, Math.floor(bytes.length / 2));
        },
        /cut off/,
      ],
      [
        // A sealed file that contains fewer exchanges than it says.
        'short.1-99.mdb',
        (file) => writeFileSync(file, bytes),
        /holds exchanges up to 4, though its name says 99/,
      ],
    ];
    for (const [name, make, words] of cases) {
      const file = path.join(folder, name);
      make(file);
      const db = name.startsWith('short') ? path.join(folder, 'short.mdb') : file;
      const out = path.join(folder, `${name}.jsonl`);
      const { status, err, out: said } = await trace(['--db', db, '--out', out]);
      expect([name, status, said]).toEqual([name, 1, '']);
      expect(err).toMatch(words);
      expect(err).toContain(name);
      expect(err.trimEnd().split('\n')).toHaveLength(1);
      expect(existsSync(out)).toBe(false);
    }
  });

  it('fails the same way when a file beside a good one is damaged', async () => {
    const db = path.join(folder, 'turned.mdb');
    const [, second] = listSealed(db);
    chmodSync(second!.path, 0o644);
    truncateSync(second!.path, 9000);
    const { status, err } = await trace(['--db', db]);
    expect(status).toBe(1);
    expect(err).toContain(path.basename(second!.path));
    expect(err.trimEnd().split('\n')).toHaveLength(1);
  });

  it('fails the same way when a sealed file is of a newer version, or its index is damaged', async () => {
    const good = listSealed(path.join(folder, 'turned.mdb'))[0]!;
    const cases: [name: string, change: (env: CaptureEnv) => void, words: RegExp][] = [
      ['newer.1-4.mdb', (env) => env.meta.putSync('format', Buffer.from('99')), /written by a newer version/],
      ['index.1-4.mdb', (env) => env.facts.putSync(1, Buffer.from('no summaries')), /damaged/],
    ];
    for (const [name, change, words] of cases) {
      const file = path.join(folder, name);
      writeFileSync(file, readFileSync(good.path));
      const env = openCaptureEnv(file, 'write');
      env.root.transactionSync(() => change(env));
      await env.root.close();
      // The sealed file has no live file beside it.
      const { status, err, out } = await trace(['--db', path.join(folder, `${name.split('.')[0]}.mdb`)]);
      expect([name, status, out]).toEqual([name, 1, '']);
      expect(err).toMatch(words);
      expect(err).toContain(name);
      expect(err.trimEnd().split('\n')).toHaveLength(1);
    }
  });

  it('fails if the monitor runs cannot be read, and does not overwrite the database', async () => {
    const db = path.join(folder, 'live.mdb');
    const broken = mkdtempSync(path.join(folder, 'broken-'));
    writeFileSync(path.join(broken, 'runs.mdb'), 'x'.repeat(10_000));
    const { status, out, err } = await trace(['--db', db], { said_in: [broken] });
    expect([status, out]).toEqual([1, '']);
    expect(err).toContain(path.join(broken, 'runs.mdb'));
    expect(err.trimEnd().split('\n')).toHaveLength(1);
    await expect(trace(['--db', db, '--out', db])).rejects.toThrow('overwrite');
    const nowhere = path.join(folder, 'no', 'such', 'folder.jsonl');
    await expect(trace(['--db', db, '--out', nowhere])).rejects.toMatchObject({ code: 'ENOENT' });
    const ontoFolder = await trace(['--db', db, '--out', folder]);
    expect(ontoFolder).toMatchObject({ status: 1, out: '' });
    expect(ontoFolder.err).toBe(`understudy: ${folder} is a folder: name a file with --out\n`);
    expect(existsSync(`${folder}.partial`)).toBe(false);
  });

  it('has help and exit statuses, and finds the outcomes of runs beside the database', async () => {
    const db = path.join(folder, 'live.mdb');
    const env = { DATA_DIR: path.join(folder, 'nothing-here') };
    const help = await runHere(['trace', '--help'], env);
    const wrong = await runHere(['trace', '--bogus'], env);
    const none = await runHere(['trace', '--db', path.join(folder, 'nope.mdb')], env);
    const piped = await runCli(['trace', '--db', db], env);
    expect(help).toMatchObject({ code: 0, stderr: '' });
    expect(help.stdout).toContain('Usage: understudy trace');
    expect(wrong.code).toBe(2);
    expect(wrong.stderr).toContain('understudy trace --help');
    expect(none.code).toBe(1);
    expect(none.stderr.split('\n')).toHaveLength(2);
    expect(piped).toMatchObject({ code: 0, stderr: '' });
    const lines = parseLines(piped.stdout);
    expect(lines).toHaveLength(7);
    // The command reads the outcome from the runs.mdb beside the database.
    expect(lines.find((line) => line.run_id === 'labelled').outcome).toBe('failure_wrong_file');
  });
});
