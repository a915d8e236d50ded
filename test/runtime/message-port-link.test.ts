/** The link over message ports: frames arrive unchanged and in order, within bounds, until the link closes. */
import { createHash, randomBytes } from 'node:crypto';
import { Worker } from 'node:worker_threads';
import { afterEach, describe, expect, it } from 'vitest';
import { type Frame, PackablePayload } from '../../src/runtime/link.ts';
import { createLocalLink } from '../../src/runtime/local-link.ts';
import { createLinkEnds, MessagePortLink } from '../../src/runtime/message-port-link.ts';
import { createDeferred } from '../../src/std/deferred.ts';
import { createPrng } from '../../src/std/prng.ts';

const links: MessagePortLink[] = [];

afterEach(() => {
  for (const link of links.splice(0)) link.close();
});

function open(maxInFlightBytes?: number): [MessagePortLink, MessagePortLink] {
  const [a, b] = createLinkEnds(maxInFlightBytes);
  const pair: [MessagePortLink, MessagePortLink] = [new MessagePortLink(a), new MessagePortLink(b)];
  links.push(...pair);
  return pair;
}

/** A frame with hashes for bodies: comparing megabytes element by element takes seconds. */
function brief(frame: Frame): unknown {
  if (!('bodies' in frame)) return frame;
  return { ...frame, bodies: frame.bodies.map((body) => createHash('sha256').update(body).digest('hex')) };
}

/** The next `count` frames. */
function collect(link: MessagePortLink, count: number): Promise<Frame[]> {
  const frames: Frame[] = [];
  const { promise, resolve } = createDeferred<Frame[]>();
  if (count === 0) resolve(frames);
  link.onFrame = (frame) => {
    frames.push(frame);
    if (frames.length === count) resolve(frames);
  };
  return promise;
}

function tell(payload: unknown, bodies: Uint8Array[] = []): Frame {
  return { type: 'tell', to: { kind: 'k', key: 'ключ' }, name: 'n', payload, bodies };
}

const EVERY_KIND: Frame[] = [
  {
    type: 'ask',
    id: 1,
    to: { kind: 'k', key: 'a\0b' },
    name: 'n',
    payload: { x: [1, null, 'ü'] },
    deadline_ms: 1.5,
    bodies: [],
  },
  tell(undefined),
  { type: 'reply', id: 2 ** 40, value: { __proto__x: 1, nested: { deep: [true, -0.5, 2 ** 33] } } },
  { type: 'error', id: 3, error: { code: 'c', message: 'm', retryable: true, detail: { a: 1 } } },
  { type: 'subscribe', topic: 't' },
  { type: 'unsubscribe', topic: 't' },
  { type: 'publish', topic: 't', payload: 'p'.repeat(100_000) },
  { type: 'fence', id: 4 },
  { type: 'fenced', id: 5 },
];

describe('a link', () => {
  it('transmits every kind of frame, both ways', async () => {
    const [a, b] = open();
    const [there, back] = [collect(b, EVERY_KIND.length), collect(a, EVERY_KIND.length)];
    for (const frame of EVERY_KIND) {
      expect(a.send(frame)).toBe(true);
      expect(b.send(frame)).toBe(true);
    }
    expect(await there).toEqual(EVERY_KIND);
    expect(await back).toEqual(EVERY_KIND);
  });

  it('sends a payload in its shorter form if it has one, unlike a link within a thread', async () => {
    class Point extends PackablePayload {
      readonly x = 1;
      readonly y = 2;
      pack = () => [this.x, this.y];
    }
    const point = new Point();
    const [a, b] = open();
    const received = collect(b, 2);
    a.send(tell(point));
    a.send({ ...EVERY_KIND[0]!, payload: point } as Frame);
    expect((await received).map((frame) => 'payload' in frame && frame.payload)).toEqual([
      [1, 2],
      [1, 2],
    ]);
    const [near, far] = createLocalLink();
    const heard: Frame[] = [];
    far.onFrame = (frame) => void heard.push(frame);
    near.send(tell(point));
    expect(heard.map((frame) => 'payload' in frame && frame.payload === point)).toEqual([true]);
  });

  it('keeps order and bytes for any sizes', async () => {
    const [a, b] = open();
    const prng = createPrng(5);
    const sent: Frame[] = [];
    // Sizes around the limit below which a batch is copied, sizes around the slab's size, and much larger ones.
    const sizes = [0, 1, 100, 8_150, 8_192, 8_300, 65_400, 65_536, 66_000, 300_000, 1_500_000];
    for (let i = 0; i < 200; i++) {
      const bodies = Array.from(
        { length: prng.below(4) },
        () => new Uint8Array(randomBytes(sizes[prng.below(sizes.length)]!)),
      );
      sent.push(tell({ i, text: 'x'.repeat(prng.below(3_000)) }, bodies));
    }
    const received = collect(b, sent.length);
    for (const frame of sent) {
      expect(a.send(frame)).toBe(true);
      if (prng.chance(0.1)) await new Promise((resolve) => setImmediate(resolve));
    }
    expect((await received).map(brief)).toEqual(sent.map(brief));
    expect(a.stats()).toMatchObject({ bytes_in_flight: 0, refused: 0 });
  });

  it('copies payload and bodies when they are sent', async () => {
    const [a, b] = open();
    const received = collect(b, 1);
    const [payload, body] = [{ list: [1] }, Buffer.from('before')];
    a.send(tell(payload, [body]));
    payload.list.push(2);
    body.fill('x');
    const [frame] = await received;
    expect(frame).toMatchObject({ payload: { list: [1] }, bodies: [new Uint8Array(Buffer.from('before'))] });
  });

  it('passes on bodies in shared memory without a copy, together with other bodies', async () => {
    const [a, b] = open(10_000);
    const memory = new SharedArrayBuffer(3_000_000);
    const views = [
      new Uint8Array(memory, 5, 2_900_000),
      new Uint8Array(new SharedArrayBuffer(7)),
      new Uint8Array(memory, 1, 0),
    ];
    views[0]!.fill(1);
    const received = collect(b, 4);
    const own = Buffer.from('own memory');
    a.send(tell('before', [own]));
    a.send(tell('x'.repeat(9_000), views));
    a.send(tell('again', [views[1]!]));
    a.send(tell('mixed', [own, views[1]!]));
    const [before, shared, again, mixed] = (await received).map((frame) =>
      'bodies' in frame ? frame.bodies : [],
    );
    expect(before!).toEqual([new Uint8Array(own)]);
    expect(shared!.map(({ byteOffset, length }) => [byteOffset, length])).toEqual([
      [5, 2_900_000],
      [0, 7],
      [1, 0],
    ]);
    // The same memory, not a copy.
    views[0]![0] = 7;
    views[1]![6] = 8;
    expect(shared![0]![0]).toBe(7);
    expect(again![0]![6]).toBe(8);
    expect(mixed!).toEqual([new Uint8Array(own), new Uint8Array(7)]);
    expect(a.stats()).toMatchObject({ refused: 0, bytes_in_flight: 0 });
  });

  it('puts the frames of a turn into one batch', async () => {
    const [a, b] = open();
    const received = collect(b, 100);
    for (let i = 0; i < 100; i++) a.send(tell(i));
    await received;
    expect(a.stats().batches_sent).toBe(1);
  });

  it('refuses frames that would exceed the bound on bytes in transit, and accepts them later', async () => {
    const [a, b] = open(10_000);
    const received = collect(b, 3);
    expect(a.send(tell(0, [new Uint8Array(4_000)]))).toBe(true);
    expect(a.send(tell(1, [new Uint8Array(4_000)]))).toBe(true);
    expect(a.send(tell(2, [new Uint8Array(4_000)]))).toBe(false);
    // Small frames are still accepted.
    expect(a.send(tell(3))).toBe(true);
    const payloads = (await received).map((frame) => frame.type === 'tell' && frame.payload);
    expect(payloads).toEqual([0, 1, 3]);
    expect(a.stats()).toMatchObject({ refused: 1, bytes_in_flight: 0 });
    const alone = collect(b, 1);
    // A single frame may be larger than the bound.
    expect(a.send(tell(4, [new Uint8Array(50_000)]))).toBe(true);
    expect(a.send(tell(5))).toBe(false);
    expect(await alone).toHaveLength(1);
  });

  it('sends a tell with the next reply, or alone after a moment', async () => {
    const [a, b] = open();
    const together = collect(b, 3);
    for (let i = 0; i < 2; i++) {
      a.send(tell(i));
      a.flush();
    }
    expect(a.stats().batches_sent).toBe(0);
    a.send({ type: 'reply', id: 1, value: null });
    a.flush();
    expect((await together).map(({ type }) => type)).toEqual(['tell', 'tell', 'reply']);
    expect(a.stats().batches_sent).toBe(1);
    const alone = collect(b, 1);
    a.send(tell(3));
    expect(await alone).toMatchObject([{ type: 'tell', payload: 3 }]);
  });

  it('lets other work of the event loop run during a flood of frames', async () => {
    const [a, b] = open();
    const total = 3_000;
    let [arrived, turns] = [0, 0];
    const { promise, resolve } = createDeferred();
    b.onFrame = () => {
      arrived++;
      // Each frame takes some time, so that all frames together take longer than the budgets of many turns.
      const until = performance.now() + 0.05;
      while (performance.now() < until);
      if (arrived === total) resolve();
    };
    const count = () => {
      turns++;
      if (arrived < total) setTimeout(count, 0);
    };
    for (let i = 0; i < total; i++) {
      a.send({ type: 'reply', id: i, value: i });
      a.flush();
    }
    count();
    await promise;
    expect(turns).toBeGreaterThan(3);
  });

  it('reports once at both ends that it is closed, and accepts nothing afterwards', async () => {
    const [a, b] = open();
    const closed = createDeferred();
    const ends: string[] = [];
    a.onClose = () => void ends.push('a');
    b.onClose = () => {
      ends.push('b');
      closed.resolve();
    };
    const last = collect(b, 1);
    a.send(tell('last words'));
    a.close();
    a.close();
    expect(await last).toHaveLength(1);
    await closed.promise;
    b.close();
    expect(ends).toEqual(['a', 'b']);
    expect([a.send(tell(1)), b.send(tell(1))]).toEqual([false, false]);
    expect(a.stats().bytes_in_flight).toBe(0);
  });

  it('closes when the other thread dies, after what it had sent', async () => {
    const [ownEnd, workerEnd] = createLinkEnds();
    const link = new MessagePortLink(ownEnd);
    links.push(link);
    const { promise, resolve } = createDeferred<unknown[]>();
    const seen: unknown[] = [];
    link.onFrame = (frame) => void seen.push(frame.type === 'reply' ? frame.value : frame.type);
    link.onClose = () => resolve(seen);
    const source = new URL('../../src/runtime/message-port-link.ts', import.meta.url).href;
    const worker = new Worker(
      `const { workerData } = require('node:worker_threads');
       import(${JSON.stringify(source)}).then(({ MessagePortLink }) => {
         const link = new MessagePortLink(workerData);
         link.send({ type: 'reply', id: 1, value: 'sent' });
         link.flush();
         throw new Error('dies');
       });`,
      { eval: true, workerData: workerEnd, transferList: [workerEnd.port] },
    );
    worker.on('error', () => {});
    expect(await promise).toEqual(['sent']);
  });

  it('throws at the sender if a value cannot be encoded, and continues', async () => {
    const [a, b] = open();
    const received = collect(b, 1);
    expect(() => a.send(tell({ big: 2n ** 80n }))).toThrow();
    expect(a.send(tell('fine'))).toBe(true);
    expect(await received).toMatchObject([{ payload: 'fine' }]);
  });
});
