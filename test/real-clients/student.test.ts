/**
 * The real Claude Code and Codex with a student: sessions that do seven kinds of tasks are captured, a round of the
 * command line learns from them, and new sessions are served as that round promised. The model is a fake that knows the
 * tasks, and is the oracle for each answer of the student. The gateway is a separate process.
 */
import { hash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { summarizeRun } from '../../src/captures/inspect.ts';
import { type FakeProvider, startFakeProvider } from '../../src/demo/fake-provider.ts';
import type { ScriptedAnswer } from '../../src/demo/script.ts';
import type { RelegationWire } from '../../src/domain/exchange.ts';
import { type TurnBlock, textOf } from '../../src/domain/turn.ts';
import { asArray, asObject, type JsonObject } from '../../src/providers/json-reading.ts';
import { normalizeTurn } from '../../src/providers/normal-turn.ts';
import { CaptureReader } from '../../src/storage/capture/reader.ts';
import { readManifest, type StudentManifest } from '../../src/student/model/manifest.ts';
import { CliChild } from '../cli/child.ts';
import { runHere } from '../cli/here.ts';
import { flush } from '../fixtures/capture-gateway.ts';
import { ClientHome } from './client-session.ts';
import { claudeCode, codex, type KnownClient, newerCodex } from './known-client.ts';
import { type ResponsesSocket, startResponsesSocket } from './responses-socket.ts';
import { decideTask, layOut, makeTask, TASK_KINDS } from './session-tasks.ts';

/**
 * Nine sessions of each kind. The student must see 26 runs without an error before it serves calls of a tool after
 * which no lookup follows. The coding agent has a single tool.
 */
const TAUGHT = 9 * TASK_KINDS;
const NEW = 2 * TASK_KINDS;
/** Time limit for all sessions and the round. A session takes 2 s, or 10 s on a busy machine. */
const ALL_SESSIONS_MS = 1_800_000;
/** Standard deviations by which the live share may be below the reported share. 2.9 of them cover 99.8 %. */
const DEVIATIONS = 2.9;
const WIRES = 'messages,responses';
const PROVIDER_KEY = 'provider-key';

interface Relegation {
  student: string | null;
  served: number;
  fallback: number;
  fallbacks: Record<string, number>;
  ledger: { agent: string; served: number; wrong: number }[];
}

const CALLS: readonly unknown[] = ['function_call', 'custom_tool_call'];
const RESULTS: readonly unknown[] = CALLS.map((type) => `${type}_output`);

/** The model's input: the words of the user, and results in the order of their calls. */
function readSession(body: JsonObject): { asked: string; results: string[] } {
  const asked: string[] = [];
  const calls: unknown[] = [];
  const results = new Map<unknown, string>();
  const wordsOf = (content: unknown): string =>
    typeof content === 'string'
      ? content
      : asArray(content)
          .map((part) => asObject(part).text ?? '')
          .join('\n');
  for (const item of [...asArray(body.messages), ...asArray(body.input)].map(asObject)) {
    if (item.role === 'user') asked.push(wordsOf(item.content));
    for (const block of [item, ...asArray(item.content).map(asObject)]) {
      if (block.type === 'tool_use') calls.push(block.id);
      if (CALLS.includes(block.type)) calls.push(block.call_id);
      if (block.type === 'tool_result') results.set(block.tool_use_id, wordsOf(block.content));
      if (RESULTS.includes(block.type)) results.set(block.call_id, wordsOf(block.output));
    }
  }
  return { asked: asked.join('\n'), results: calls.map((id) => results.get(id) ?? '') };
}

/** Finds the session's folder in the model's input; '' for a client that tells the folder in another way. */
function findFolder(body: JsonObject): string {
  return /Primary working directory: (.+?)(?:\\n|")/.exec(JSON.stringify(body.messages ?? []))?.[1] ?? '';
}

/** A client with everything that a student needs to serve it. */
class TaughtClient {
  readonly client: KnownClient;
  readonly folder = mkdtempSync(join(tmpdir(), 'understudy-taught-'));
  readonly home = new ClientHome();
  provider!: FakeProvider;
  /** In front of the provider, for clients that request a WebSocket. */
  socket!: ResponsesSocket;
  gateway!: CliChild;
  url = '';
  /** The ids of the sessions so far. */
  readonly sessions: string[] = [];
  /** Milliseconds that the sessions took in all. */
  took_ms = 0;

  constructor(client: KnownClient) {
    this.client = client;
  }

  get db(): string {
    return join(this.folder, 'capture.mdb');
  }

  get student(): string {
    return join(this.folder, 'student');
  }

  decide(body: JsonObject): ScriptedAnswer {
    const { asked, results } = readSession(body);
    // A summarized session knows only the content of the summary.
    const [, known] = /It comes to this: (.*)\n?/.exec(asked) ?? [];
    if (known !== undefined) return { text: known };
    const { shell } = this.client;
    const answer = decideTask(asked, results, { shell, ...this.client.files(findFolder(body)) });
    return CHECKPOINT.test(asked) ? { text: `It comes to this: ${answer.text}` } : answer;
  }

  async start(): Promise<void> {
    mkdirSync(this.student);
    this.provider = await startFakeProvider({
      script: () => this.decide(JSON.parse(String(this.provider.requests.at(-1)!.body)) as JsonObject),
    });
    this.socket = await startResponsesSocket(this.provider.url);
    this.gateway = new CliChild(['gateway', '--port', '0', '--db', this.db], {
      env: {
        GW_UPSTREAM_BASE: this.socket.url,
        DATA_DIR: this.folder,
        SVC_DISTILL_DIR: this.student,
        SVC_STUDENT_KEYS: PROVIDER_KEY,
        GW_RELEGATION_WIRES: WIRES,
        GW_RELEGATION_AUDIT: '0',
        GW_STUDENT_TIMEOUT_MS: '20000',
      },
    });
    const [, url = ''] = await this.gateway.waitForOutput(/^ {2}Gateway +(http:\/\/\S+) {2}->/m);
    this.url = url;
  }

  /** A session in a new folder with the same home; it must end as its task requires. */
  async work(nth: number, more: readonly string[] = []): Promise<void> {
    const task = makeTask(nth);
    const work = join(this.home.work, `session-${nth}`);
    mkdirSync(work);
    layOut(task, work);
    const begun = performance.now();
    const session = await this.client.ask({ home: this.home.home, work }, task.prompt, this.url, {}, more);
    this.took_ms += performance.now() - begun;
    this.sessions.push(session.id);
    expect(session, `session ${nth}: ${session.stderr}`).toMatchObject({ code: 0, answer: task.answer });
    for (const [path, content] of Object.entries(task.changed))
      expect(readFileSync(join(work, path), 'utf8'), `${path} of session ${nth}`).toBe(content);
  }

  /** Opens everything that was captured so far. */
  async open(): Promise<CaptureReader> {
    await flush(this.url);
    const reader = CaptureReader.open(this.db);
    onTestFinished(() => reader.close());
    return reader;
  }

  async records() {
    return [...(await this.open()).summaries()];
  }

  async relegation(): Promise<Relegation> {
    const stats = (await (await fetch(`${this.url}/__gw/stats`)).json()) as { relegation: Relegation };
    return stats.relegation;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.gateway[Symbol.asyncDispose]();
    await this.socket.close();
    await this.provider.close();
    this.home[Symbol.dispose]();
    rmSync(this.folder, { recursive: true });
  }
}

/** Codex's request when a session has grown too long. */
const CHECKPOINT = /CONTEXT CHECKPOINT COMPACTION/;

/** The calls and the last text of an answer: the parts on which an agent acts. */
const actsOf = (content: readonly TurnBlock[]) => {
  const calls = content.filter((block) => block.type === 'tool_call');
  if (calls.length > 0) return calls.map(({ name, input }) => ({ name, input }));
  return textOf(content);
};

for (const client of await Promise.all([claudeCode(), codex(), newerCodex()])) {
  describe.skipIf(client.installed.entry === null)(`${client.title} ${client.installed.needed}`, () => {
    const wire: RelegationWire = client.name === 'codex' ? 'responses' : 'messages';
    const taught = new TaughtClient(client);
    let report = '';
    let before = 0;
    beforeAll(async () => {
      await taught.start();
      for (let nth = 0; nth < TAUGHT; nth++) await taught.work(nth);
      await flush(taught.url);
      const round = await runHere(['loop', '--once', '--db', taught.db, '--out', taught.student], {
        DATA_DIR: taught.folder,
        GW_RELEGATION_WIRES: WIRES,
        EMBED_MODEL: 'off',
      });
      report = round.stdout + round.stderr;
      expect(round.code, report).toBe(0);
      expect(existsSync(join(taught.student, 'manifest.json')), report).toBe(true);
      for (let isReady = false; !isReady; ) isReady = (await taught.relegation()).student === 'exemplar';
      before = taught.provider.requests.length;
      for (let nth = TAUGHT; nth < TAUGHT + NEW; nth++) await taught.work(nth);
      await flush(taught.url);
    }, ALL_SESSIONS_MS);
    afterAll(() => taught[Symbol.asyncDispose]());

    it('has one golden run for each session, and reaches the provider with the bytes that it sent', async () => {
      const reader = await taught.open();
      const records = [...reader.summaries()];
      expect(new Set(records.map(({ run_id }) => run_id))).toEqual(new Set(taught.sessions));
      for (const run of taught.sessions)
        expect(summarizeRun(reader, run), run).toMatchObject({ golden: true, reasons: [], errors: 0 });
      const digest = (body: Uint8Array): string => hash('sha256', body);
      const sent = records
        .filter(({ served_by }) => served_by !== 'student')
        .map(({ id }) => digest(reader.copy(id)!.request_body));
      expect(sent.sort()).toEqual(taught.provider.requests.map(({ body }) => digest(body)).sort());
    });

    it('is served what the round promised, without an error', async () => {
      const { measured } = readManifest(
        readFileSync(join(taught.student, 'manifest.json'), 'utf8'),
      ) as StudentManifest;
      const { served, fallbacks, ledger } = await taught.relegation();
      const asked = taught.provider.requests.length - before;
      const reader = CaptureReader.open(taught.db);
      let given = 0;
      try {
        for (const { id, served_by } of reader.summaries()) {
          if (served_by !== 'student') continue;
          given++;
          const copy = reader.copy(id)!;
          const { text, tool_calls } = taught.decide(
            JSON.parse(String(Buffer.from(copy.request_body))) as JsonObject,
          );
          expect(actsOf(normalizeTurn(copy)!.answer.content), `exchange ${id}`).toEqual(tool_calls ?? text);
        }
      } finally {
        await reader.close();
      }
      // The ledger, the stats and what was captured say the same.
      expect(given).toBe(served);
      expect(ledger.reduce((sum, day) => sum + day.served, 0)).toBe(served);
      const [reported, live] = [measured.served / measured.steps, served / (served + asked)];
      const deviation = Math.sqrt(reported * (1 - reported) * (1 / measured.steps + 1 / (served + asked)));
      const figures = `${served} of ${served + asked} live, ${measured.served} of ${measured.steps} reported, ${JSON.stringify(fallbacks)}, ${Math.round(taught.took_ms / taught.sessions.length)} ms for a session\n${report}`;
      process.stderr.write(`${client.title}: ${figures.split('\n')[0]}\n`);
      // The client draws the ids of its sessions at random, and the ids decide which sessions are held out. With so few
      // sessions, three errors exclude a whole kind.
      expect(reported, figures).toBeGreaterThan(0.1);
      expect(live, figures).toBeGreaterThanOrEqual(reported - DEVIATIONS * deviation);
    });

    it.runIf(client.title === 'codex')(
      'goes to the upstream over a WebSocket, which works as without a student',
      async () => {
        const before = await taught.relegation();
        const [calls, last] = [taught.provider.requests.length, (await taught.records()).at(-1)!.id];
        const more = ['-c', 'model_providers.fake.supports_websockets=true'];
        for (const nth of [0, 1]) await taught.work(TAUGHT + NEW + nth, more);
        expect(taught.provider.requests.length).toBe(calls + 4);
        const frames = taught.socket.asked.filter(({ generate }) => generate !== false);
        expect(frames).toHaveLength(4);
        const records = (await taught.records()).filter(({ id }) => id > last);
        expect(records.every(({ served_by }) => served_by === 'upstream')).toBe(true);
        const { served, fallback } = await taught.relegation();
        expect({ served, fallback }).toEqual({ served: before.served, fallback: before.fallback });
        // Sessions over a WebSocket teach nothing that could be served.
        const runs = new Set(records.map(({ run_id }) => run_id));
        expect(runs.size).toBe(2);
      },
    );

    it.runIf(client.title === 'codex')(
      'has its session summarized by the upstream, and continues from the summary',
      async () => {
        const before = await taught.relegation();
        const last = (await taught.records()).at(-1)!.id;
        await taught.work(TAUGHT + NEW + TASK_KINDS, ['-c', 'model_auto_compact_token_limit=1000']);
        const records = (await taught.records()).filter(({ id }) => id > last);
        const sides = records.filter(({ run_kind }) => run_kind !== undefined);
        expect(sides).toMatchObject([{ served_by: 'upstream', parent_run_id: records[0]!.run_id }]);
        // The upstream also serves the step after the summary, because no golden run continued from a summary.
        expect(records.slice(records.indexOf(sides[0]!)).map(({ served_by }) => served_by)).toEqual([
          'upstream',
          'upstream',
        ]);
        expect((await taught.relegation()).served - before.served).toBe(
          records.filter(({ served_by }) => served_by === 'student').length,
        );
        // The provider's own summary is not a step.
        const reply = await fetch(`${taught.url}/v1/responses/compact`, {
          method: 'POST',
          headers: { authorization: `Bearer ${PROVIDER_KEY}`, 'content-type': 'application/json' },
          body: JSON.stringify({ model: 'gpt-demo-large', input: [{ role: 'user', content: 'Sum it up.' }] }),
        });
        expect(reply.headers.get('x-svc-served-by')).toBeNull();
        expect((await taught.records()).at(-1)).toMatchObject({
          kind: 'other',
          path: '/v1/responses/compact',
        });
        const { golden, reasons } = summarizeRun(await taught.open(), records[0]!.run_id!)!;
        expect({ golden, reasons }).toMatchObject({ golden: false });
      },
    );

    it('is served by the upstream for requests that no golden run sent', async () => {
      const reader = CaptureReader.open(taught.db);
      const served = [...reader.summaries()].find(({ served_by }) => served_by === 'student')!;
      const { request_body, request_headers } = reader.copy(served.id)!;
      await reader.close();
      const body = JSON.parse(String(Buffer.from(request_body))) as JsonObject;
      const headers: Record<string, string> = {};
      for (let at = 0; at < request_headers.length; at += 2) {
        const [name, value] = [request_headers[at]!.toLowerCase(), request_headers[at + 1]!];
        if (/^(?:anthropic-|openai-|content-type|x-|user-agent|originator)/.test(name)) headers[name] = value;
      }
      headers[wire === 'messages' ? 'x-api-key' : 'authorization'] =
        wire === 'messages' ? PROVIDER_KEY : `Bearer ${PROVIDER_KEY}`;
      const ask = async (body: JsonObject, more: Record<string, string> = {}): Promise<string> => {
        const path = wire === 'messages' ? '/v1/messages?beta=true' : '/v1/responses';
        const reply = await fetch(`${taught.url}${path}`, {
          method: 'POST',
          headers: { ...headers, ...more },
          body: JSON.stringify(body),
        });
        await reply.text();
        return reply.headers.get('x-svc-served-by') ?? 'upstream';
      };
      const listName = wire === 'messages' ? 'messages' : 'input';
      const list = asArray(body[listName]).map(asObject);
      const block = { type: 'hologram', text: 'Look at this.' };
      const at = list.findIndex(({ content }) => Array.isArray(content));
      const withBlock = { ...list[at], content: [block, ...asArray(list[at]!.content)] };
      const beta = wire === 'messages' ? 'anthropic-beta' : 'openai-beta';
      expect(await ask(body)).toBe('student');
      const variations: Record<string, Promise<string>> = {
        'a new field': ask({ ...body, hologram: true }),
        'another value of a setting': ask({ ...body, temperature: 0.31 }),
        'a new block': ask({
          ...body,
          [listName]: list.with(at, withBlock),
        }),
        'a new role': ask({ ...body, [listName]: [...list, { role: 'overseer', content: 'Go on.' }] }),
        'a new beta': ask(body, { [beta]: `${headers[beta] ?? ''},holograms-2026-11-23` }),
        'a new tool': ask({
          ...body,
          tools: [...asArray(body.tools), { type: 'hologram_20261123', name: 'hologram' }],
        }),
        'a new word of the system': ask({
          ...body,
          [listName]: [
            ...list,
            { role: wire === 'messages' ? 'system' : 'developer', content: 'Never use the shell.' },
          ],
        }),
      };
      for (const [what, by] of Object.entries(variations)) expect(await by, what).toBe('upstream');
      expect(await ask(body)).toBe('student');
    });
  });
}
