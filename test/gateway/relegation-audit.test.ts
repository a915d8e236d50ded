/**
 * Audits over real sockets: the upstream serves a covered step, both answers are compared, and a student that disagrees
 * with the upstream is suspended and stays suspended.
 */
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { makeDraft } from '../../bench/made-manifest.ts';
import { fitOrderStudent } from '../../bench/order-agent.ts';
import { publishStudent } from '../../src/student/directory.ts';
import { readCaptured } from '../fixtures/capture-files.ts';
import { flush, readStats } from '../fixtures/capture-gateway.ts';
import { rawRequest } from '../fixtures/raw-client.ts';
import { messageBytes } from '../fixtures/raw-message.ts';
import { type RawUpstream, startRawUpstream } from '../fixtures/raw-upstream.ts';
import {
  type RelegatedGateway,
  type RelegatedGatewayOptions,
  serverOf,
  startRelegatedGateway,
  stepBody,
  stepBytes,
} from '../fixtures/relegated-gateway.ts';

let upstream: RawUpstream;
/** The text of the upstream's answers. `status`: their status line. */
let says = '';
/** The whole body of the upstream's answers. null: an answer with the text `says`. */
let saysRaw: string | null = null;
let status = '200 OK';
beforeAll(async () => {
  upstream = await startRawUpstream((connection) =>
    connection.write(
      messageBytes(
        `HTTP/1.1 ${status}`,
        [['Content-Type', 'application/json']],
        Buffer.from(
          saysRaw ??
            JSON.stringify({
              id: 'msg_u',
              type: 'message',
              role: 'assistant',
              model: 'm',
              content: [{ type: 'text', text: says }],
              stop_reason: 'end_turn',
              stop_sequence: null,
              usage: { input_tokens: 1, output_tokens: 1 },
            }),
        ),
      ),
    ),
  );
});
afterAll(() => upstream.close());

let gateway: RelegatedGateway | null = null;
const folder = mkdtempSync(join(tmpdir(), 'understudy-audit-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
afterEach(async () => {
  await gateway?.close();
  gateway = null;
  status = '200 OK';
  saysRaw = null;
  rmSync(join(folder, 'student-watch.json'), { force: true });
  rmSync(join(folder, 'student'), { recursive: true, force: true });
});

const start = async (options: Partial<RelegatedGatewayOptions> = {}) => {
  upstream.requests.length = 0;
  gateway = await startRelegatedGateway({ upstream: upstream.url, folder, audit_share: 1, ...options });
  return gateway;
};
const send = (body: object, headers: [string, string][] = []) =>
  rawRequest(gateway!.port, stepBytes(body, headers));
const label = (run: string, seq: number): [string, string][] => [
  ['x-svc-run', run],
  ['x-svc-seq', String(seq)],
];

interface Watched {
  agent: string;
  state: string;
  compared: number;
  wrong: number;
  kinds: { kind: string; state: string; compared: number; wrong: number }[];
}
interface Stats {
  audit: { asked: number; compared: number; agreed: number };
  suspended: { agents: number; kinds: number };
  expired: boolean;
  valid_until: string | null;
  fallbacks: Record<string, number>;
  version: number;
  agents: Watched[];
}
const stats = async () => (await readStats(gateway!.url)).relegation as unknown as Stats;
const compared = (count: number) =>
  expect.poll(async () => (await stats()).audit.compared, { timeout: 20_000 }).toBe(count);

describe('an audited step', () => {
  it('is served by the upstream byte for byte, captured as the upstream’s, and compared', async () => {
    await start();
    says = 'served: this';
    const answer = await send(stepBody('serve this'));
    expect(serverOf(answer)).toBe('upstream');
    expect(JSON.parse(answer.body.toString())).toMatchObject({ id: 'msg_u', content: [{ text: says }] });
    expect(upstream.requests).toHaveLength(1);
    await compared(1);
    expect(await stats()).toMatchObject({
      audit: { asked: 1, compared: 1, agreed: 1 },
      fallbacks: { audit: 1 },
      suspended: { agents: 0, kinds: 0 },
      agents: [{ state: 'serving', kinds: [{ kind: 'text', state: 'young', compared: 1, wrong: 0 }] }],
    });
    await flush(gateway!.url);
    const captured = await readCaptured(gateway!.db);
    expect(captured.map(({ record }) => record.served_by)).toEqual(['upstream']);
  });

  it('leaves a sticky run with the student if the answers agree, and with the upstream if not', {
    tags: 'long',
  }, async () => {
    const { relegation } = await start({ audit_share: 0.05, sticky: true });
    const until = async (run: string, task: string, seq: number, messages?: object[]) =>
      send(stepBody((messages as never) ?? task), label(run, seq));
    says = 'served: again';
    // Two in five answers of a new kind are audited, so steps are repeated until an answer is audited.
    let audited: string | null = null;
    for (let at = 0; audited === null; at++) {
      const answer = await until(`run ${at}`, 'serve again', 1);
      if (serverOf(answer) === 'upstream') audited = `run ${at}`;
    }
    await gateway!.until(() => relegation.ledger.counters().audit.compared === 1);
    const conversation = [
      { role: 'user', content: 'serve again' },
      { role: 'assistant', content: [{ type: 'text', text: says }] },
      { role: 'user', content: 'serve more' },
    ];
    says = 'served: more';
    const before = gateway!.counts().fallbacks.taken_over ?? 0;
    await until(audited, '', 2, conversation);
    expect(gateway!.counts().fallbacks.taken_over ?? 0).toBe(before);
    expect(gateway!.counts().fallbacks.unknown_run ?? 0).toBe(0);

    // Repeats steps until one is audited, with a different answer of the upstream.
    says = 'something else';
    let other: string | null = null;
    for (let at = 0; other === null; at++) {
      const answer = await until(`other ${at}`, 'serve again', 1);
      if (serverOf(answer) === 'upstream') other = `other ${at}`;
    }
    await gateway!.until(() => {
      const { compared, agreed } = relegation.ledger.counters().audit;
      return compared > agreed;
    });
    await until(other, '', 2, [
      conversation[0]!,
      { role: 'assistant', content: [{ type: 'text', text: says }] },
      conversation[2]!,
    ]);
    expect(gateway!.counts().fallbacks.taken_over).toBe(before + 1);
  });

  it('agrees only if the arguments have equal values, whatever the blanks between them', async () => {
    await start();
    const callOf = (input: string): string =>
      `{"id":"msg_u","type":"message","role":"assistant","model":"m","content":[{"type":"tool_use","id":"toolu_1","name":"look","input":${input}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}`;
    const inputs: [input: string, agrees: boolean][] = [
      ['{ "at": "a" }', true],
      ['{"at":"b"}', false],
      ['{}', false],
      ['{"at":"a","id":2512292042121000001}', false],
    ];
    for (const [at, [input]] of inputs.entries()) {
      saysRaw = callOf(input);
      await send(stepBody('call a'));
      await compared(at + 1);
    }
    const agreed = inputs.filter(([, agrees]) => agrees).length;
    expect((await stats()).audit).toEqual({ asked: 4, compared: 4, agreed, reading_differs: 0 });
  });

  it('does not count if the upstream gave no answer', async () => {
    await start();
    says = 'served: this';
    status = '529 Overloaded';
    expect((await send(stepBody('serve this'))).status).toBe(529);
    status = '200 OK';
    await send(stepBody('serve this'));
    await compared(1);
    expect((await stats()).audit).toEqual({ asked: 2, compared: 1, agreed: 1, reading_differs: 0 });
  });
});

describe('an upstream that changes silently', () => {
  it('causes the suspension of the kind of answer, also after a restart, until a later student is published', {
    tags: 'long',
  }, async () => {
    await start();
    says = 'something else altogether';
    // The student's text differs from the upstream's in every audit, until its kind is suspended.
    for (let at = 1; (await stats()).suspended.kinds + (await stats()).suspended.agents === 0; at++) {
      await send(stepBody('serve this'));
      await compared(at);
      expect(at).toBeLessThan(40);
    }
    const asked = (await stats()).audit.asked;
    expect(serverOf(await send(stepBody('serve this')))).toBe('upstream');
    const after = await stats();
    expect(after.fallbacks.suspended).toBe(1);
    expect(after.audit.asked).toBe(asked);
    const path = join(folder, 'student-watch.json');
    await expect.poll(() => readFileSync(path, 'utf8'), { timeout: 20_000 }).toMatch(/"suspended_at_ms":\d/);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(readFileSync(path, 'utf8')).not.toContain('altogether');

    await gateway!.close();
    rmSync(join(folder, 'student'), { recursive: true, force: true });
    await start({ audit_share: 0 });
    expect(serverOf(await send(stepBody('serve this')))).toBe('upstream');
    expect((await stats()).fallbacks.suspended).toBe(1);

    // A later student begins with audits.
    await publishStudent(
      gateway!.directory,
      makeDraft({ made_at: new Date().toISOString() }),
      await fitOrderStudent(),
    );
    await expect.poll(async () => (await stats()).version, { timeout: 20_000 }).toBe(2);
    await send(stepBody('serve this'));
    expect((await stats()).fallbacks).toMatchObject({ suspended: 1 });
  });

  it('is compared from the beginning if the file of comparisons is damaged', async () => {
    writeFileSync(join(folder, 'student-watch.json'), '{"format":');
    await start();
    says = 'served: this';
    await send(stepBody('serve this'));
    await compared(1);
    expect((await stats()).agents).toMatchObject([{ compared: 1 }]);
  });
});

describe('an expired student', () => {
  it('serves nothing, and the status says so', { tags: 'long' }, async () => {
    await start({ audit_share: 0 });
    const valid_until = new Date(Date.now() - 1_000).toISOString();
    await publishStudent(gateway!.directory, makeDraft({ valid_until }), await fitOrderStudent());
    await expect.poll(async () => (await stats()).version, { timeout: 20_000 }).toBe(2);
    expect(serverOf(await send(stepBody('serve this')))).toBe('upstream');
    expect(await stats()).toMatchObject({ expired: true, valid_until, fallbacks: { expired: 1 } });
  });
});
