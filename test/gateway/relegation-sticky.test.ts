/**
 * Who serves a run step by step if runs stay with the upstream (GW_RELEGATION_STICKY=on): with a label and without,
 * after failures, retries and restarts, in shadow mode, and with a new student in the directory while the gateway runs.
 * Also the default, with which the student may serve again.
 */
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { makeDraft } from '../../bench/made-manifest.ts';
import { fitOrderStudent } from '../../bench/order-agent.ts';
import { publishStudent } from '../../src/student/directory.ts';
import { readCaptured } from '../fixtures/capture-files.ts';
import { flush } from '../fixtures/capture-gateway.ts';
import { rawRequest } from '../fixtures/raw-client.ts';
import { headerValue, messageBytes } from '../fixtures/raw-message.ts';
import { type RawUpstream, startRawUpstream } from '../fixtures/raw-upstream.ts';
import {
  type RelegatedGateway,
  type RelegatedGatewayOptions,
  serverOf,
  startRelegatedGateway,
  stepBody,
  stepBytes,
} from '../fixtures/relegated-gateway.ts';

interface Message {
  role: string;
  content: unknown;
}

let upstream: RawUpstream;
/** The content of the upstream's answers. `isGzip`: whether they are compressed. */
let says: { content: unknown[]; stop_reason: string } = { content: [], stop_reason: 'end_turn' };
let isGzip = false;
beforeAll(async () => {
  upstream = await startRawUpstream((connection, request) => {
    const asked = JSON.parse(request.body.toString()) as { stream?: boolean };
    const message = { id: 'msg_u', type: 'message', role: 'assistant', model: 'm', ...says };
    const usage = { input_tokens: 1, output_tokens: 1 };
    const text =
      asked.stream === true ? events(says) : JSON.stringify({ ...message, stop_sequence: null, usage });
    const type = asked.stream === true ? 'text/event-stream' : 'application/json';
    const headers: [string, string][] = [
      ['Content-Type', type],
      ...(isGzip ? [['Content-Encoding', 'gzip'] as [string, string]] : []),
    ];
    const body = isGzip ? gzipSync(text) : Buffer.from(text);
    return connection.write(messageBytes('HTTP/1.1 200 OK', headers, body));
  });
});
afterAll(() => upstream.close());

function events({ content, stop_reason }: typeof says): string {
  const all: { type: string }[] = [
    { type: 'message_start', ...{ message: { usage: { input_tokens: 1 } } } },
    ...(content as { type: string; text?: string; input?: unknown }[]).flatMap((block, index) => [
      { type: 'content_block_start', index, content_block: { ...block, text: '', input: {} } },
      {
        type: 'content_block_delta',
        index,
        delta:
          block.type === 'text'
            ? { type: 'text_delta', text: block.text }
            : { type: 'input_json_delta', partial_json: JSON.stringify(block.input) },
      },
      { type: 'content_block_stop', index },
    ]),
    { type: 'message_delta', ...{ delta: { stop_reason }, usage: { output_tokens: 1 } } },
    { type: 'message_stop' },
  ];
  return all.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join('');
}

const say = (text: string) => {
  says = { content: [{ type: 'text', text }], stop_reason: 'end_turn' };
};

let folder = '';
let gateway: RelegatedGateway;
/** The gateway that several tests share, each with its own runs. A test that changes the gateway starts another one. */
let shared: { gateway: RelegatedGateway; folder: string } | null = null;
let test = 0;
const start = async (options: Partial<RelegatedGatewayOptions> = {}) => {
  const made = mkdtempSync(join(tmpdir(), 'understudy-sticky-'));
  return {
    folder: made,
    gateway: await startRelegatedGateway({ upstream: upstream.url, folder: made, sticky: true, ...options }),
  };
};
/** @param options options for a gateway of this test alone; null: use the shared one */
const open = async (options: Partial<RelegatedGatewayOptions> | null = null) => {
  test++;
  say('upstream');
  isGzip = false;
  if (options === null) shared ??= await start();
  ({ gateway, folder } = options === null ? shared! : await start(options));
  await gateway.until(() => gateway.relegation.link.isReady);
};
afterEach(async () => {
  if (gateway === shared?.gateway) return;
  await gateway.close();
  rmSync(folder, { recursive: true, force: true });
});
afterAll(async () => {
  await shared?.gateway.close();
  if (shared !== null) rmSync(shared.folder, { recursive: true, force: true });
});

/** The agent's side of a conversation: sends a text or the results of calls, and appends the answer. */
class Talk {
  readonly messages: Message[] = [];
  readonly #run: string | null;
  readonly #more: object;
  seq = 0;

  constructor(run: string | null = null, more: object = {}) {
    this.#run = run === null ? null : `${run} ${test}`;
    this.#more = more;
  }

  /**
   * Sends a text, and a result for each call of the last answer.
   * @returns `student` if the student served the step, else why it did not
   */
  async step(words: string, hasSeq = true): Promise<string> {
    const last = this.messages.at(-1)?.content;
    const calls = Array.isArray(last) ? (last as { type: string; id: string }[]) : [];
    const results = calls
      .filter(({ type }) => type === 'tool_use')
      .map(({ id }) => ({ type: 'tool_result', tool_use_id: id, content: 'seen' }));
    this.messages.push({ role: 'user', content: [...results, { type: 'text', text: words }] });
    this.seq++;
    return this.send(hasSeq);
  }

  /** Sends the pending messages, perhaps a second time. */
  async send(hasSeq = true): Promise<string> {
    const headers: [string, string][] = [];
    if (this.#run !== null) headers.push(['x-svc-run', this.#run]);
    if (this.#run !== null && hasSeq) headers.push(['x-svc-seq', String(this.seq)]);
    const before = gateway.counts();
    const answer = await rawRequest(gateway.port, stepBytes(stepBody(this.messages, this.#more), headers));
    expect(answer.status).toBe(200);
    if (this.messages.at(-1)!.role === 'assistant') this.messages.pop();
    const isPacked = headerValue(answer, 'content-encoding') === 'gzip';
    const text = isPacked ? gunzipSync(answer.body) : answer.body;
    const { content } = JSON.parse(text.toString()) as { content: unknown };
    this.messages.push({ role: 'assistant', content });
    if (serverOf(answer) === 'student') return 'student';
    // In shadow mode, the upstream may answer before the student.
    await gateway.until(() => gateway.counts().fallback > before.fallback);
    const after = Object.entries(gateway.counts().fallbacks);
    const grown = after.find(([reason, count]) => {
      return count !== (before.fallbacks[reason as keyof typeof before.fallbacks] ?? 0);
    });
    return grown![0];
  }

  /** Removes the last answer, to request it again. */
  again(hasSeq = true): Promise<string> {
    this.messages.pop();
    return this.send(hasSeq);
  }
}

describe.each(['a-run', null])('a run (label: %s)', (run) => {
  it('stays with the student as long as it serves, with calls and with text', { tags: 'long' }, async () => {
    await open();
    const talk = new Talk(run);
    for (const words of ['call here', 'call there', 'serve 1', 'serve 2', 'call again', 'serve 3'])
      expect(await talk.step(words)).toBe('student');
  });

  it('stays with the upstream after a take-over', async () => {
    await open();
    for (const first of ['call here', 'serve words', null]) {
      const talk = new Talk(run === null ? null : `${run} ${first}`);
      if (first !== null) expect(await talk.step(first)).toBe('student');
      expect(await talk.step('decline')).toBe('too_far');
      const stuck = run === null ? 'unknown_run' : 'taken_over';
      expect(await talk.step('serve this')).toBe(stuck);
      expect(await talk.step('serve that')).toBe(stuck);
    }
  });

  it('stays with the upstream after a failure', async () => {
    await open();
    const talk = new Talk(run);
    expect(await talk.step('call here')).toBe('student');
    expect(await talk.step('throw')).toBe('failed');
    expect(await talk.step('serve this')).toBe(run === null ? 'unknown_run' : 'taken_over');
  });

  it('stays with the upstream after a student’s answer that came too late', { tags: 'long' }, async () => {
    await open({ timeout_ms: 300 });
    // On a busy machine, even an answer that is not delayed may be late. The run then stays with the upstream, and the
    // test begins another run.
    let talk = new Talk(run);
    for (let at = 1; (await talk.step('call here')) !== 'student'; at++)
      talk = new Talk(run === null ? null : `${run} ${at}`);
    expect(await talk.step('hold it')).toBe('timeout');
    gateway.letStudentGo('it');
    // The late answer arrives before the student's next one.
    let next = await talk.step('serve this');
    while (next === 'timeout') next = await talk.again();
    expect(next).toBe(run === null ? 'unknown_run' : 'taken_over');
  });

  it('is served again when the same step is repeated', async () => {
    await open();
    const talk = new Talk(run);
    expect(await talk.step('call here')).toBe('student');
    const first = JSON.stringify(talk.messages.at(-1));
    expect(await talk.again()).toBe('student');
    const second = JSON.stringify(talk.messages.at(-1));
    const plain = (text: string) => text.replace(/toolu_\w+/g, 'toolu');
    expect(plain(second)).toBe(plain(first));
    expect(second).not.toBe(first);
    expect(await talk.step('call there')).toBe('student');
    expect(await talk.again()).toBe('student');
    expect(await talk.step('serve the end')).toBe('student');
  });

  it('goes to the upstream after a step that the student could not read, if the run has a label', async () => {
    await open();
    const talk = new Talk(run);
    expect(await talk.step('call here')).toBe('student');
    const body = Buffer.from(JSON.stringify(stepBody(talk.messages)));
    const headers: [string, string][] = run === null ? [] : [['x-svc-run', `${run} ${test}`]];
    await rawRequest(gateway.port, stepBytes(gzipSync(body), [...headers, ['Content-Encoding', 'gzip']]));
    // Without a label, the unread step cannot be assigned to the run, so the conversation continues with the student.
    expect(await talk.step('serve this')).toBe(run === null ? 'student' : 'taken_over');
  });

  it('does not continue after a restart, but a new run is served', { tags: 'long' }, async () => {
    await open({});
    const talk = new Talk(run);
    expect(await talk.step('call here')).toBe('student');
    await gateway.close();
    gateway = await startRelegatedGateway({ upstream: upstream.url, folder, sticky: true });
    expect(await talk.step('serve this')).toBe('unknown_run');
    expect(await talk.step('serve that')).toBe(run === null ? 'unknown_run' : 'taken_over');
    expect(await new Talk(run === null ? null : 'another').step('serve this')).toBe('student');
  });

  it('does not continue after the student’s thread has ended', { tags: 'long' }, async () => {
    await open();
    const talk = new Talk(run);
    expect(await talk.step('call here')).toBe('student');
    expect(await new Talk('other').step('crash')).toBe('crashed');
    await gateway.until(() => gateway.relegation.link.isReady);
    expect(await talk.step('serve this')).toBe('unknown_run');
  });

  it('continues with a newer student that replaces the student', { tags: 'long' }, async () => {
    await open({});
    const talk = new Talk(run);
    const taken = new Talk(run === null ? null : 'taken');
    expect(await talk.step('call here')).toBe('student');
    expect(await taken.step('decline')).toBe('too_far');
    await publishStudent(gateway.directory, makeDraft(), fitOrderStudent());
    await gateway.until(() => gateway.student.facts?.version === 2);
    expect(await talk.step('serve this')).toBe('student');
    expect(await taken.step('serve this')).toBe(run === null ? 'unknown_run' : 'taken_over');
  });
});

describe.each(['a-run', null])('a student that comes back (label: %s)', { tags: 'long' }, (run) => {
  it('serves again after a step that it declined, failed at or crashed at', async () => {
    await open({ sticky: false, timeout_ms: 30_000 });
    const talk = new Talk(run);
    expect(await talk.step('decline')).toBe('too_far');
    expect(await talk.step('call here')).toBe('student');
    expect(await talk.step('throw')).toBe('failed');
    expect(await talk.step('serve this')).toBe('student');
    expect(await talk.step('crash')).toBe('crashed');
    await gateway.until(() => gateway.relegation.link.isReady);
    expect(await talk.step('serve that')).toBe('student');
    expect(await talk.again()).toBe('student');
  });

  it('continues runs that began before a restart, or elsewhere', async () => {
    await open({ sticky: false });
    const talk = new Talk(run);
    expect(await talk.step('call here')).toBe('student');
    await gateway.close();
    gateway = await startRelegatedGateway({ upstream: upstream.url, folder });
    expect(await talk.step('serve this')).toBe('student');
    const late = new Talk(run === null ? null : 'late');
    late.seq = 4;
    late.messages.push(
      { role: 'user', content: 'serve this' },
      { role: 'assistant', content: [{ type: 'text', text: 'not said by the student' }] },
    );
    expect(await late.step('serve more')).toBe('student');
  });

  it('is judged step by step in shadow mode, too', async () => {
    await open({ sticky: false, mode: 'shadow' });
    const talk = new Talk(run);
    say('served: this');
    expect(await talk.step('serve this')).toBe('shadow');
    expect(await talk.step('decline')).toBe('too_far');
    expect(await talk.step('serve this')).toBe('shadow');
  });
});

describe('a labelled run', () => {
  it('has one server for all its conversations', async () => {
    await open();
    const main = new Talk('family');
    const sub = new Talk('family');
    expect(await main.step('call here')).toBe('student');
    sub.seq = 1;
    expect(await sub.step('serve this')).toBe('student');
    expect(await sub.step('decline')).toBe('too_far');
    expect(await main.step('serve that')).toBe('taken_over');
    const later = new Talk('family');
    expect(await later.step('serve this', false)).toBe('taken_over');
  });

  it('that is unknown is served only from its beginning', async () => {
    await open();
    const talk = new Talk('late');
    talk.seq = 4;
    expect(await talk.step('serve this')).toBe('unknown_run');
    expect(await new Talk('late').step('serve this')).toBe('taken_over');
    expect(await new Talk('without numbers').step('serve this', false)).toBe('student');
  });

  it('does not continue from another run’s answers', async () => {
    await open();
    const first = new Talk('one');
    expect(await first.step('call here')).toBe('student');
    const other = new Talk('two');
    other.messages.push(...first.messages);
    expect(await other.step('serve this')).toBe('unknown_run');
  });

  it('may have a label of 20,000 characters', async () => {
    await open();
    const talk = new Talk('r'.repeat(20_000));
    expect(await talk.step('call here')).toBe('student');
    expect(await talk.step('decline')).toBe('too_far');
    expect(await talk.step('serve')).toBe('taken_over');
  });
});

describe('a run without a label', () => {
  it('is distinguished from another that began with the same words', async () => {
    await open();
    const [first, second] = [new Talk(), new Talk()];
    expect(await first.step('call here')).toBe('student');
    expect(await second.step('call here')).toBe('student');
    expect(await first.step('decline')).toBe('too_far');
    expect(await second.step('serve this')).toBe('student');
    expect(await first.step('serve this')).toBe('unknown_run');
  });

  it('does not continue from an answer that the gateway did not send', async () => {
    await open();
    const talk = new Talk();
    talk.messages.push(
      { role: 'user', content: 'serve this' },
      { role: 'assistant', content: [{ type: 'text', text: 'served: that' }] },
    );
    expect(await talk.step('serve more')).toBe('unknown_run');
  });
});

describe('shadow mode', () => {
  it('serves nothing, counts what it would have served, and compares', { tags: 'long' }, async () => {
    await open({ mode: 'shadow' });
    const talk = new Talk('shadowed');
    say('served: this');
    expect(await talk.step('serve this')).toBe('shadow');
    await gateway.until(() => gateway.counts().shadow.compared === 1);
    say('something else, with 17 in it');
    expect(await talk.step('serve that')).toBe('shadow');
    await gateway.until(() => gateway.counts().shadow.compared === 2);
    says = {
      content: [{ type: 'tool_use', id: 'toolu_upstream', name: 'look', input: { at: 'here' } }],
      stop_reason: 'tool_use',
    };
    isGzip = true;
    expect(await talk.step('call here')).toBe('shadow');
    await gateway.until(() => gateway.counts().shadow.compared === 3);
    expect(gateway.counts()).toMatchObject({
      served: 0,
      fallback: 3,
      errors: 0,
      fallbacks: { shadow: 3 },
      tokens_saved: { input: 0, output: 0 },
      shadow: { would_serve: 3, compared: 3, agreed: 2 },
    });
    await flush(gateway.url);
    const captured = await readCaptured(gateway.db);
    expect(captured.map(({ record }) => record.served_by)).toEqual(['upstream', 'upstream', 'upstream']);
  });

  it.each(['shadowed', null])(
    'follows the run that it would have served (label: %s)',
    { tags: 'long' },
    async (run) => {
      await open({ mode: 'shadow' });
      const talk = new Talk(run);
      say('served: this');
      expect(await talk.step('serve this')).toBe('shadow');
      await gateway.until(() => gateway.counts().shadow.compared === 1);
      expect(await talk.step('decline')).toBe('too_far');
      expect(await talk.step('serve this')).toBe(run === null ? 'unknown_run' : 'taken_over');
    },
  );

  it('compares streams', { tags: 'long' }, async () => {
    await open({ mode: 'shadow' });
    say('served: this');
    const body = stepBody('serve this', { stream: true });
    const answer = await rawRequest(gateway.port, stepBytes(body));
    expect(headerValue(answer, 'content-type')).toBe('text/event-stream');
    await gateway.until(() => gateway.counts().shadow.compared === 1);
    expect(gateway.counts().shadow).toEqual({ would_serve: 1, compared: 1, agreed: 1, reading_differs: 0 });
  });

  it('does not delay a client when the student waits, throws or crashes', { tags: 'long' }, async () => {
    await open({ mode: 'shadow' });
    for (const task of ['hold it', 'throw', 'crash']) {
      const answer = await rawRequest(gateway.port, stepBytes(stepBody(task)));
      expect(answer.status).toBe(200);
      expect(serverOf(answer)).toBe('upstream');
    }
    // All three have their answers, and the student has not answered yet.
    expect(gateway.counts().fallback).toBe(0);
    gateway.letStudentGo('it');
    await gateway.until(() => gateway.counts().fallback === 3);
    expect(gateway.counts()).toMatchObject({ served: 0, fallbacks: { shadow: 1, failed: 1, crashed: 1 } });
  });

  it('does not delay a client when the student hangs', { tags: 'long' }, async () => {
    await open({ mode: 'shadow', ping_ms: 1_000 });
    const answer = await rawRequest(gateway.port, stepBytes(stepBody('hang')));
    expect(serverOf(answer)).toBe('upstream');
    await gateway.until(() => gateway.counts().fallback === 1);
    expect(gateway.counts()).toMatchObject({ served: 0, fallbacks: { crashed: 1 } });
  });
});

describe('a new student in the directory', () => {
  it('that cannot be read is reported once, and the previous one stays', { tags: 'long' }, async () => {
    await open({});
    spoil('{"format":"svc_student_v1","version":');
    await gateway.until(() => gateway.logged.some((line) => line.includes('cannot be loaded')));
    expect(await new Talk().step('serve this')).toBe('student');
    spoil('{"format":"svc_student_v1","version": ');
    await gateway.until(() => gateway.logged.length > 1);
    expect(await new Talk().step('serve this')).toBe('student');
    await publishAgain();
    await gateway.until(() => gateway.logged.at(-1)!.startsWith('the student is there'));
    expect(await new Talk().step('serve this')).toBe('student');
    expect(gateway.logged.filter((line) => line.includes('not JSON')).length).toBeLessThanOrEqual(2);
  });
});

/** Replaces the manifest by renaming, because the gateway reads it at any time and must not see half a file. */
function spoil(manifest: string): void {
  writeFileSync(join(folder, 'spoilt.json'), manifest);
  renameSync(join(folder, 'spoilt.json'), join(gateway.directory, 'manifest.json'));
}

/** Publishes a student after removing the manifest, as a process does that finds a damaged one. */
async function publishAgain(): Promise<void> {
  rmSync(join(gateway.directory, 'manifest.json'));
  await publishStudent(gateway.directory, makeDraft(), fitOrderStudent());
}
