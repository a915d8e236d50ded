/**
 * Runs that clients' own headers identify: sessions, agents within them and side calls, and whether these runs are
 * golden. With the real decoders and a real capture file.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { listChildRuns } from '../../src/captures/child-runs.ts';
import { summarizeRun } from '../../src/captures/inspect.ts';
import type { CapturedExchange } from '../../src/domain/exchange.ts';
import { decodeExchange } from '../../src/providers/decode.ts';
import { CaptureLog } from '../../src/storage/capture/log.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { makeExchange } from './captured.ts';
import { makeFolder } from './folder.ts';

const SESSION = 'd60530b4-a57a-44c3-9a84-b36ea3e98f78';
const CLAUDE = ['X-Claude-Code-Session-Id', SESSION];
const OPENCODE_SESSION = 'ses_df7161870ffe9s8WpX8Zifxwjz';
const OPENCODE = ['x-session-affinity', OPENCODE_SESSION, 'x-session-id', OPENCODE_SESSION];

interface Said {
  role: 'user' | 'assistant';
  content: string;
}
const user = (content: string): Said => ({ role: 'user', content });
const assistant = (content: string): Said => ({ role: 'assistant', content });
const WORDS = 'You look for things, with the tools that there are.';
const ANSWER = assistant('It is in the second drawer from the left, under the old newspapers, as I saw.');

/** A turn of the Messages API. */
function turn(
  request_headers: string[],
  messages: Said[],
  {
    tools = ['Bash'],
    system = WORDS,
    answer = ANSWER.content,
    ...rest
  }: {
    tools?: string[];
    system?: string;
    answer?: string;
  } & Partial<CapturedExchange> = {},
): CapturedExchange {
  const request = { model: 'm', system, messages, tools: tools.map((name) => ({ name })) };
  const response = {
    type: 'message',
    role: 'assistant',
    model: 'm',
    stop_reason: 'end_turn',
    content: [{ type: 'text', text: answer }],
  };
  return makeExchange({
    request_headers: ['host', 'gw', ...request_headers],
    request_body: Buffer.from(JSON.stringify(request)),
    response_body: Buffer.from(JSON.stringify(response)),
    response_headers: ['content-type', 'application/json'],
    ...rest,
  });
}

/** Stores and indexes the exchanges, and opens the file. */
async function store(
  exchanges: CapturedExchange[],
  run_headers?: string[],
  redact = true,
): Promise<CaptureReader> {
  const path = join(makeFolder(), 'capture.mdb');
  const log = await CaptureLog.open({ path, redact, ...(run_headers === undefined ? {} : { run_headers }) });
  await log.append(exchanges);
  while ((await log.indexSome(decodeExchange, 1_000)) > 0);
  await log.close();
  const reader = CaptureReader.open(path);
  onTestFinished(async () => {
    await reader.close();
    rmSync(join(path, '..'), { recursive: true });
  });
  return reader;
}

const runsOf = (reader: CaptureReader) =>
  [...reader.summaries()].map(({ run_id, run_kind }) => [run_id, run_kind ?? null]);

describe('sessions', () => {
  it('keep a summarized conversation in one run, and mark its unproven part', async () => {
    const begin = user('<summary>We looked everywhere.</summary> Go on.');
    const reader = await store([
      turn(CLAUDE, [user('Where is it?')]),
      turn(CLAUDE, [begin], { answer: 'So I go on with what was said, and look in the other room again.' }),
    ]);
    expect(runsOf(reader)).toEqual([
      [SESSION, null],
      [SESSION, null],
    ]);
    expect(summarizeRun(reader, SESSION)).toMatchObject({
      session_id: SESSION,
      golden: false,
      gaps: [],
      reasons: [{ code: 'unlinked', words: expect.stringContaining('not the continuation') }],
    });
  });

  it('are golden without numbers if the conversation is unbroken', async () => {
    const reader = await store([
      turn(CLAUDE, [user('Where is it?')]),
      turn([...CLAUDE, 'x-claude-code-agent-id', 'a69baf915666a168d'], [user('Look for it.')]),
      turn(CLAUDE, [user('Where is it?'), ANSWER, user('Thank you.')]),
    ]);
    const agent = `${SESSION}:a69baf915666a168d`;
    expect(runsOf(reader)).toEqual([
      [SESSION, null],
      [agent, 'subagent'],
      [SESSION, null],
    ]);
    expect(summarizeRun(reader, SESSION)).toMatchObject({ golden: true, turns: 2, parent_run_id: null });
    expect(summarizeRun(reader, agent)).toMatchObject({
      golden: true,
      kind: 'subagent',
      session_id: SESSION,
      parent_run_id: SESSION,
    });
    expect(listChildRuns(reader, SESSION)).toEqual([{ run_id: agent, kind: 'subagent' }]);
  });

  it('have side calls in child runs, which are never golden', async () => {
    const none = { tools: [] };
    const asked = [user('Where is it?')];
    const reader = await store([
      turn(OPENCODE, asked, {
        ...none,
        system: 'You are a title generator. You output ONLY a thread title.',
      }),
      turn(OPENCODE, asked),
      turn(OPENCODE, [user('rm -rf /')], {
        ...none,
        system: 'You are a security monitor for autonomous agents.',
      }),
      turn(OPENCODE, [user('x')], {
        ...none,
        system: 'You are a helpful AI assistant tasked with summarizing conversations.',
      }),
      turn(OPENCODE, [
        ...asked,
        ANSWER,
        user('Please create a detailed summary of the conversation so far.'),
      ]),
      turn(OPENCODE, [user('Is it quick?')], { ...none, system: 'Answer with one word.' }),
      turn(OPENCODE, [...asked, ANSWER, user('Thank you.')]),
    ]);
    const side = (kind: string) => [`${OPENCODE_SESSION}:${kind}`, kind];
    expect(runsOf(reader)).toEqual([
      side('title'),
      [OPENCODE_SESSION, null],
      side('safety_check'),
      side('summary'),
      side('summary'),
      side('side_call'),
      [OPENCODE_SESSION, null],
    ]);
    expect(summarizeRun(reader, OPENCODE_SESSION)).toMatchObject({ golden: true, turns: 2 });
    expect(summarizeRun(reader, `${OPENCODE_SESSION}:title`)).toMatchObject({
      golden: false,
      kind: 'title',
      parent_run_id: OPENCODE_SESSION,
      reasons: [{ code: 'side_call' }],
    });
  });

  it('come from the header that the operator names, and from no similar one', async () => {
    const headers = ['x-acme-run', 'nightly-7'];
    const asked = [user('Where is it?')];
    const reader = await store(
      [turn(headers, asked), turn(headers, [user('And the other?')])],
      ['x-acme-run'],
    );
    expect(runsOf(reader)).toEqual([
      ['nightly-7', null],
      ['nightly-7', null],
    ]);
    expect(runsOf(await store([turn(headers, asked)]))).toEqual([['conv_1', null]]);
  });

  it('are ignored if x-svc-run names a run', async () => {
    const reader = await store([turn(CLAUDE, [user('Where is it?')], { run_id: 'mine' })]);
    expect(runsOf(reader)).toEqual([['mine', null]]);
    expect([...reader.exchanges()][0]).not.toHaveProperty('session_id');
  });

  it('are masked only where they may be a credential', async () => {
    const secret = ['x-session-affinity', 'shared-secret-7', 'x-session-id', 'shared-secret-7'];
    const [open, kept] = [...(await store([turn(OPENCODE, []), turn(secret, [])])).exchanges()];
    expect(open!.request.headers.slice(1)).toEqual([
      ['x-session-affinity', OPENCODE_SESSION],
      ['x-session-id', OPENCODE_SESSION],
    ]);
    expect(JSON.stringify(kept)).not.toContain('shared-secret-7');
  });
});

it('an invalid sequence number is a gap', async () => {
  const labelled = (seq: string) =>
    turn(['x-svc-run', 'r', 'x-svc-seq', seq], [user('Where is it?')], { run_id: 'r' });
  const reader = await store([{ ...labelled('1'), seq: 1 }, labelled('two')]);
  expect(summarizeRun(reader, 'r')).toMatchObject({
    golden: false,
    reasons: expect.arrayContaining([
      { code: 'seq_gap', words: 'exchange 2: an x-svc-seq that is not a number, which leaves a gap' },
    ]),
  });
  const alone = await store([labelled('two')]);
  expect(summarizeRun(alone, 'r')).toMatchObject({ golden: false, reasons: [{ code: 'seq_gap' }] });
});
