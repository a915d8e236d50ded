/**
 * `understudy distill --export`: golden runs as lines for fine-tuning a model. The lines must be valid values of the
 * official SDKs' types.
 */
import { execFile } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ExportReport } from '../../src/teaching/training-export.ts';
import { basketExchanges, captureExchanges } from '../fixtures/basket-agent.ts';
import { CliChild } from './child.ts';
import { runHere } from './here.ts';

const RUNS = 60;
const SECRET = 'sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz-AAAAAAAA';

let folder = '';
let db = '';
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'export-'));
  db = join(folder, 'capture.mdb');
  const exchanges = Array.from({ length: RUNS }, (_, at) => basketExchanges(at)).flat();
  // Added: a run in which a student answered one step, a run without an end, and a run with a secret.
  const served = basketExchanges(RUNS, 'served');
  served[1]!.served_by = 'student';
  const cut = basketExchanges(RUNS + 1, 'cut').slice(0, 2);
  const secret = basketExchanges(RUNS + 2, 'secret', `Use ${SECRET}.`);
  await captureExchanges(db, [...exchanges, ...served, ...cut, ...secret]);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Line {
  messages: { role: string; content?: unknown; weight?: number; tool_calls?: unknown[] }[];
  tools?: unknown[];
}

const readLines = (out: string, name: string): Line[] =>
  readFileSync(join(folder, out, name), 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Line);

async function exportAs(form: string, out: string, ...more: string[]): Promise<ExportReport> {
  const argv = ['distill', '--db', db, '--out', join(folder, out), '--export', form, '--json', ...more];
  const { code, stdout, stderr } = await runHere(argv, { DATA_DIR: join(folder, 'data') });
  expect([code, stderr]).toEqual([0, '']);
  return JSON.parse(stdout) as ExportReport;
}

/** @returns the number of the basket that a line is about, which is different in each run */
const basketOf = (line: Line): string => /B-\d+/.exec(JSON.stringify(line))![0];

/** Compiles the lines as values of the SDK's types. @returns the compiler's errors */
async function checkTypes(header: string, lines: readonly unknown[]): Promise<string> {
  const place = join(folder, 'types');
  mkdirSync(place, { recursive: true });
  if (!existsSync(join(place, 'node_modules')))
    symlinkSync(resolve('node_modules'), join(place, 'node_modules'));
  const values = lines.map((line, at) => `export const line${at}: Line = ${JSON.stringify(line)};`);
  writeFileSync(join(place, 'lines.ts'), `${header}\n${values.join('\n')}\n`);
  const flags = ['--noEmit', '--strict', '--skipLibCheck', '--module', 'nodenext', '--target', 'es2023'];
  const tsc = resolve('node_modules/.bin/tsc');
  return promisify(execFile)(tsc, [...flags, '--types', 'node', 'lines.ts'], { cwd: place }).then(
    ({ stdout }) => stdout,
    (error: { stdout: string }) => error.stdout,
  );
}

const OPENAI = `import type { ChatCompletionAssistantMessageParam, ChatCompletionMessageParam, ChatCompletionTool } from 'openai/resources/chat/completions';
type Taught = ChatCompletionAssistantMessageParam & { weight?: 0 | 1 };
type Line = {
  messages: (Exclude<ChatCompletionMessageParam, { role: 'assistant' }> | Taught)[];
  tools?: ChatCompletionTool[];
  parallel_tool_calls?: boolean;
};`;
const ANTHROPIC = `import type { MessageParam, Tool } from '@anthropic-ai/sdk/resources/messages';
type Line = { system?: string; messages: MessageParam[]; tools?: Tool[] };`;

describe('distill --export', () => {
  it('writes conversations with their tools for chat-completions', async () => {
    const report = await exportAs('openai', 'openai');
    expect(report).toMatchObject({ outcome: 'exported', form: 'openai', golden: RUNS + 2 });
    const [train, heldOut] = [readLines('openai', 'train.jsonl'), readLines('openai', 'held-out.jsonl')];
    expect(train.length + heldOut.length).toBe(RUNS + 2);
    expect(heldOut.length).toBe(report.held_out_runs.length);
    // No run is in both files.
    const apart = new Set(heldOut.map(basketOf));
    expect(train.map(basketOf).filter((basket) => apart.has(basket))).toEqual([]);
    const [line] = train;
    expect(line!.messages.map(({ role }) => role)).toEqual([
      ...['system', 'user', 'assistant', 'tool', 'assistant', 'tool', 'assistant'],
    ]);
    expect(line!.tools).toHaveLength(2);
    // Only the student's answer has the weight 0.
    const all = [...train, ...heldOut];
    const weights = all.flatMap(({ messages }) =>
      messages.flatMap(({ role, weight }) => (role === 'assistant' ? [weight] : [])),
    );
    expect(weights.filter((weight) => weight === 0)).toHaveLength(1);
    expect(weights.filter((weight) => weight === 1)).toHaveLength(3 * (RUNS + 2) - 1);
    for (const name of readdirSync(join(folder, 'openai'))) {
      expect(statSync(join(folder, 'openai', name)).mode & 0o777).toBe(0o600);
      expect(readFileSync(join(folder, 'openai', name), 'utf8')).not.toContain(SECRET);
    }
    expect(readdirSync(join(folder, 'openai')).sort()).toEqual([
      ...['export.json', 'held-out.jsonl', 'train.jsonl'],
    ]);
    expect(await checkTypes(OPENAI, all.slice(0, 20))).toBe('');
    expect(await checkTypes(OPENAI, [{ ...line, messages: [{ role: 'assistent' }] }])).toContain('error');
  });

  it('writes conversations for Messages, without those that contain answers of other models', {
    tags: 'long',
  }, async () => {
    const report = await exportAs('anthropic', 'anthropic');
    expect(report.left_out).toEqual({ other_answers: 1 });
    const lines = [...readLines('anthropic', 'train.jsonl'), ...readLines('anthropic', 'held-out.jsonl')];
    expect(lines).toHaveLength(RUNS + 1);
    for (const { messages } of lines)
      expect(messages.map(({ role }) => role)).toEqual([
        ...['user', 'assistant', 'user', 'assistant', 'user', 'assistant'],
      ]);
    expect(await checkTypes(ANTHROPIC, lines.slice(0, 20))).toBe('');
  });

  it('holds out the requested share, and replaces no folder other than an export', {
    tags: 'long',
  }, async () => {
    const report = await exportAs('openai', 'again', '--held-out', '0.5');
    expect(report.held_out).toBe(0.5);
    expect(report.held_out_runs.length).toBeGreaterThan(RUNS / 4);
    const again = await exportAs('openai', 'again', '--held-out', '0.25');
    expect(again.held_out_runs.length).toBeLessThan(report.held_out_runs.length);
    // A smaller share holds out a part of the runs that a larger one holds out.
    for (const run of again.held_out_runs) expect(report.held_out_runs).toContain(run);

    mkdirSync(join(folder, 'other'));
    writeFileSync(join(folder, 'other', 'train.jsonl'), 'mine');
    const argv = ['distill', '--db', db, '--out', join(folder, 'other'), '--export', 'openai'];
    const { code, stderr } = await runHere(argv, { DATA_DIR: join(folder, 'data') });
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(
        /^understudy: \S+train\.jsonl exists already, and does not belong to an export\n$/,
      ),
    ]);
    expect(readFileSync(join(folder, 'other', 'train.jsonl'), 'utf8')).toBe('mine');
  });

  it('says where the files are, and how to try the taught model', { tags: 'long' }, async () => {
    const argv = ['distill', '--db', db, '--out', join(folder, 'told'), '--export', 'openai'];
    const { code, stdout } = await runHere(argv, { DATA_DIR: join(folder, 'data') });
    expect(code).toBe(0);
    expect(stdout).toMatch(/train\.jsonl +\d+ +\d+/);
    expect(stdout).toMatch(/distill --model-url URL --model NAME --held-out 0\.\d+/);
  });
});

it('an export says in one line that no space is left, and leaves no part of a file', {
  tags: 'long',
}, async () => {
  const out = join(folder, 'full');
  const argv = ['distill', '--db', db, '--out', out, '--export', 'openai'];
  await using child = new CliChild(argv, {
    env: { DATA_DIR: join(folder, 'data') },
    file_bytes_max: '16384',
  });
  const { code, stdout, stderr } = await child.ended;
  expect([code, stdout]).toEqual([1, '']);
  expect(stderr).toMatch(/^understudy: [^\n]*full[^\n]*\n$/);
  expect(readdirSync(out)).toEqual([]);
});
