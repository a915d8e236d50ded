/**
 * Sequential agents without labels, each request on a new connection, so that several server threads handle the turns
 * of one run. Every run is complete and golden, even with a fast upstream.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { summarizeRuns } from '../../src/captures/inspect.ts';
import { loadConfig, raiseParserHeadLimit } from '../../src/config.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';

const AGENTS = 15;
const TURNS = 4;

interface Message {
  role: string;
  content: unknown;
}

let upstream: Server;
/** Time that the upstream takes for its n-th answer. */
let delayMs: (n: number) => number = () => 0;

/**
 * An answer that calls a tool until the conversation is long enough. Its ids and words name the agent, unless all
 * agents are alike.
 */
function answer(messages: readonly Message[]): object {
  const turn = (messages.length + 1) / 2;
  const task = messages[0]!.content as string;
  const isLast = turn >= TURNS;
  const words = {
    type: 'text',
    text: `Step ${turn} of ${TURNS}: I look at what the tool has said, and go on from there.`,
  };
  const call = {
    type: 'tool_use',
    id: `toolu_${task.length}_${task}_${turn}`,
    name: 'look',
    input: { turn },
  };
  return {
    id: `msg_${turn}`,
    type: 'message',
    role: 'assistant',
    model: 'claude-x',
    content: isLast ? [words] : [words, call],
    stop_reason: isLast ? 'end_turn' : 'tool_use',
    usage: { input_tokens: 10, output_tokens: 5 },
  };
}

beforeAll(async () => {
  raiseParserHeadLimit();
  let asked = 0;
  upstream = createServer(async (request, response) => {
    const { messages } = (await json(request)) as { messages: Message[] };
    const body = JSON.stringify(answer(messages));
    await pause(delayMs(asked++));
    response.setHeader('content-type', 'application/json').end(body);
  });
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve));
});
afterAll(() => {
  upstream.closeAllConnections();
  upstream.close();
});

async function ask(url: string, messages: readonly Message[]): Promise<Message['content']> {
  const response = await fetch(`${url}/v1/messages`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': 'none', connection: 'close' },
    body: JSON.stringify({ model: 'claude-x', max_tokens: 99, messages }),
  });
  expect(response.status).toBe(200);
  return ((await response.json()) as { content: { type: string; id?: string }[] }).content;
}

async function work(url: string, task: string): Promise<void> {
  const messages: Message[] = [{ role: 'user', content: task }];
  for (let turn = 1; turn <= TURNS; turn++) {
    const content = await ask(url, messages);
    const call = (content as { type: string; id?: string }[]).find(({ type }) => type === 'tool_use');
    if (call === undefined) continue;
    messages.push({ role: 'assistant', content });
    messages.push({
      role: 'user',
      content: [{ type: 'tool_result', tool_use_id: call.id, content: `seen ${turn}` }],
    });
  }
}

/** Runs the agents one after the other. @returns the captured runs */
async function capture(threads: number, taskOf: (agent: number) => string) {
  const folder = mkdtempSync(join(tmpdir(), 'understudy-order-'));
  const { port } = upstream.address() as AddressInfo;
  const env = {
    DATA_DIR: folder,
    SERVER_THREADS: String(threads),
    PORT: '0',
    GW_UPSTREAM_BASE: `http://127.0.0.1:${port}`,
  };
  const { startUnderstudy } = await import('../../src/main.ts');
  const running = await startUnderstudy(loadConfig({ listener: 'gateway', port: '0' }, env), {
    api: false,
    gateway: true,
  });
  try {
    for (let agent = 0; agent < AGENTS; agent++) await work(running.gateway_url!, taskOf(agent));
  } finally {
    await running.stop();
  }
  const reader = CaptureReader.open(join(folder, 'capture.mdb'));
  const { runs } = await summarizeRuns(reader);
  await reader.close();
  rmSync(folder, { recursive: true });
  return runs.map(({ turns, golden, reasons }) => ({ turns, golden, reasons }));
}

const ALL = Array.from({ length: AGENTS }, () => ({ turns: TURNS, golden: true, reasons: [] }));

describe('runs of sequential agents without labels', () => {
  const settings = [
    [2, 3],
    [2, 0],
    [3, 1],
    [4, 5],
    [5, 2],
  ] as const;
  for (const [threads, ms] of settings)
    it(`are complete with ${threads} server threads and an upstream of ${ms} ms`, async () => {
      delayMs = () => ms;
      expect(await capture(threads, (agent) => `Task ${agent}`)).toEqual(ALL);
    });

  it('are complete although all agents have the same texts', async () => {
    delayMs = (n) => n % 6;
    expect(await capture(3, () => 'The task')).toEqual(ALL);
  });
});
