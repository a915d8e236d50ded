/** A server thread's link to the student's thread, with a test at the other end that breaks the rules. */
import { MessageChannel, type MessagePort } from 'node:worker_threads';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type StepWaiter, StudentLink } from '../../../src/gateway/relegation/student-link.ts';
import { STEPS_UNDER_WAY, STUDENT_TIMEOUT_MS } from '../../../src/student/serving/limits.ts';
import type { ClientMessage } from '../../../src/student/serving/protocol.ts';

let link: StudentLink;
let far: MessagePort;
let heard: ClientMessage[];
let words: string[];
const waiter = (name = ''): StepWaiter => ({
  onServed: () => void words.push(`${name}served`),
  onDeclined: (reason) => void words.push(`${name}${reason}`),
  onWouldServe: () => void words.push(`${name}would`),
  onAudited: () => void words.push(`${name}audited`),
  onFailed: (reason) => void words.push(`${name}${reason}`),
});
const head = {
  wire: 'messages' as const,
  run_id: 'r',
  session_id: 'r',
  seq: 1,
  betas: [],
  api_version: '2023-06-01' as const,
  origin: '',
};
const send = (name = '') => link.send(head, new Uint8Array([1, 2, 3]), waiter(name));
const until = async (done: () => boolean) => {
  while (!done()) await new Promise((resolve) => setImmediate(resolve));
};
const attach = (kind: 'exemplar' | 'http' = 'exemplar') => {
  const { port1, port2 } = new MessageChannel();
  port2.on('message', (message: ClientMessage) => heard.push(message));
  link.attach(port1, { kind, version: 1 });
  return port2;
};
beforeEach(() => {
  heard = [];
  words = [];
  link = new StudentLink(null);
  far = attach();
});
afterEach(() => {
  link.close();
  far.close();
});

const SERVED = {
  type: 'served',
  body: new Uint8Array([1]),
  is_stream: false,
  request_id: 'req_1',
  input_tokens: 1,
  output_tokens: 1,
};

describe('the link to a student', () => {
  it('passes on well-formed messages', async () => {
    for (const name of ['a ', 'b ', 'c ']) send(name);
    far.postMessage({ ...SERVED, id: 2 });
    far.postMessage({ type: 'declined', id: 1, reason: 'too_far' });
    far.postMessage({ type: 'would_serve', id: 3 });
    await until(() => words.length === 3);
    expect(words).toEqual(['b served', 'a too_far', 'c would']);
  });

  it.each([
    { ...SERVED, body: new Uint8Array() },
    { ...SERVED, body: 'text' },
    { ...SERVED, body: null },
    { ...SERVED, is_stream: 1 },
    { ...SERVED, request_id: 'a\r\nset-cookie: b' },
    { ...SERVED, request_id: undefined },
    { ...SERVED, input_tokens: Number.NaN },
    { ...SERVED, output_tokens: '5' },
    { type: 'declined', reason: 'mood' },
    { type: 'declined' },
    { type: 'what?' },
    {},
  ])('treats a malformed message as a failure: %j', async (message) => {
    send();
    far.postMessage(null);
    far.postMessage('served');
    far.postMessage({ ...message, id: 1 });
    await until(() => words.length === 1);
    expect(words).toEqual(['failed']);
  });

  it('ignores answers without a waiting caller', async () => {
    const sent = send()!;
    sent.abandon();
    far.postMessage({ ...SERVED, id: 1 });
    far.postMessage({ ...SERVED, id: 77 });
    send('later ');
    far.postMessage({ type: 'declined', id: 2, reason: 'invalid' });
    await until(() => words.length === 1);
    expect(words).toEqual(['later invalid']);
    await until(() => heard.length === 3);
    expect(heard.map(({ type }) => type)).toEqual(['decide', 'abandon', 'decide']);
    expect(heard[1]).toMatchObject({ id: 1, run_id: 'r' });
  });

  it('reports the end of the thread to every step, once', async () => {
    for (const name of ['a ', 'b ']) send(name);
    far.close();
    await until(() => words.length === 2);
    expect(words).toEqual(['a crashed', 'b crashed']);
    expect(link.isReady).toBe(false);
    expect(send()).toBeNull();
    far = attach();
    expect(send()).not.toBeNull();
  });

  it('lets a replaced student finish its steps', async () => {
    send('old ');
    const former = far;
    far = attach('http');
    send('new ');
    expect(link.timeout_ms).toBe(STUDENT_TIMEOUT_MS.http);
    former.postMessage({ ...SERVED, id: 1 });
    await until(() => words.length === 1);
    former.close();
    far.postMessage({ ...SERVED, id: 2 });
    await until(() => words.length === 2);
    expect(words).toEqual(['old served', 'new served']);
    expect(link.isReady).toBe(true);
  });

  it('accepts a limited number of steps at once, and more when some are done', async () => {
    for (let at = 0; at < STEPS_UNDER_WAY; at++) expect(send()).not.toBeNull();
    expect(link.isBusy).toBe(true);
    expect(send()).toBeNull();
    far.postMessage({ ...SERVED, id: 5 });
    await until(() => !link.isBusy);
    expect(send()).not.toBeNull();
    far.close();
    await until(() => words.length === STEPS_UNDER_WAY + 1);
    far = attach();
    for (let at = 0; at < STEPS_UNDER_WAY; at++) expect(send()).not.toBeNull();
  });
});
