/** The capture writer's decisions, without threads and without a log. */

import { describe, expect, it } from 'vitest';
import {
  CaptureLogAdapter,
  type ExchangeLog,
  type TidyPass,
  type WriterEvent,
} from '../../actors/capture-writer/adapter.ts';
import { CAPTURE_LOG_ADAPTER, captureWriter } from '../../actors/capture-writer/behaviour.ts';
import { ActorKit, type EffectOf, type KitAnswer } from '../../src/runtime/kit.ts';

it('the log’s adapter reports when exchanges cannot be stored, why, and when they can be again', async () => {
  let isFull = false;
  const told: WriterEvent[] = [];
  const append = async () => {
    if (isFull) throw Object.assign(new Error('write'), { code: 'ENOSPC', path: '/a.mdb' });
    return { first_id: 1, last_id: 0 };
  };
  const adapter = new CaptureLogAdapter(
    async () => ({ append }) as unknown as ExchangeLog,
    (event) => told.push(event),
  );
  const batch = { slabs: [], cells: [], from: 0, exchanges: 0, queue_fill: 0 };
  await adapter.append(batch);
  isFull = true;
  for (let at = 0; at < 2; at++) await expect(adapter.append(batch)).rejects.toThrow();
  const failing = { type: 'failing', cause: 'disk_full', reason: 'no space is left for /a.mdb' };
  expect(told).toEqual([failing]);
  isFull = false;
  for (let at = 0; at < 2; at++) await adapter.append(batch);
  expect(told).toEqual([failing, { type: 'stored_again' }]);
});

const IO_ERROR = { code: 'ENOSPC', message: 'no space left on device', retryable: false };

function askHeld(
  kit: ActorKit,
  name: string,
  payload: unknown = null,
  bodies: Uint8Array[] = [],
): { token: number; io: EffectOf<'io'> } {
  const answer = kit.ask(name, payload, bodies);
  if (answer.type !== 'held') throw new Error(`answered with ${answer.type}`);
  const [io, ...rest] = kit.takeEffectsOf('io');
  expect(rest).toEqual([]);
  expect(io?.adapter).toBe(CAPTURE_LOG_ADAPTER);
  return { token: answer.token, io: io! };
}

/** An append that is stored under these ids. */
function append(kit: ActorKit, firstId: number, lastId: number, bodies: Uint8Array[] = []): void {
  const { io } = askHeld(kit, 'append', { slabs: bodies.length }, bodies);
  kit.finish(io, { first_id: firstId, last_id: lastId });
}

/** The result of a tidying pass. `share`: the part of the time that the next passes may take under load. */
function pass(done: number, took_ms = 20, share = 0.1): TidyPass {
  return { done, took_ms, share };
}

function refusalOf(answer: KitAnswer): { code: string; retryable: boolean } | null {
  return answer.type === 'refuse' ? { code: answer.error.code, retryable: answer.error.retryable } : null;
}

describe('the capture writer', () => {
  it('answers an append when the log has stored it, and not before', () => {
    const kit = new ActorKit(captureWriter);
    const { token, io } = askHeld(kit, 'append', { slabs: 0 });
    expect(io.operation).toBe('append');
    expect(kit.answerTo(token)).toEqual({ type: 'none' });
    kit.finish(io, { first_id: 3, last_id: 4 });
    expect(kit.answerTo(token)).toEqual({ type: 'reply', value: { first_id: 3, last_id: 4 } });
  });

  it('passes slabs and cells on unchanged', () => {
    const kit = new ActorKit(captureWriter);
    const bodies = [Buffer.from('slab'), Buffer.from('another')];
    kit.ask('append', { slabs: 1 }, bodies);
    const [io] = kit.takeEffectsOf('io');
    const { slabs, cells } = io!.input as { slabs: Uint8Array[]; cells: Uint8Array[] };
    expect(slabs).toHaveLength(1);
    expect(slabs[0]).toBe(bodies[0]);
    expect(cells).toHaveLength(1);
    expect(cells[0]).toBe(bodies[1]);
  });

  it.each([
    ['open', 'capture_failed'],
    ['append', 'capture_failed'],
    ['flush', 'unavailable'],
    ['rotate', 'unavailable'],
    ['state', 'unavailable'],
  ])('says of a failed %s that it may be tried again', (name, code) => {
    const kit = new ActorKit(captureWriter);
    const { token, io } = askHeld(kit, name, { slabs: 0 });
    kit.fail(io, IO_ERROR);
    expect(refusalOf(kit.answerTo(token))).toEqual({ code, retryable: true });
  });

  it('refuses everything but a request for its state once it is killed', () => {
    const kit = new ActorKit(captureWriter);
    const { token, io } = askHeld(kit, 'kill');
    expect(io.operation).toBe('close');
    for (const name of ['open', 'append', 'flush', 'rotate']) {
      expect(refusalOf(kit.ask(name, { slabs: 0 }))).toEqual({ code: 'capture_stopped', retryable: false });
    }
    expect(kit.takeEffectsOf('io')).toEqual([]);
    kit.finish(io, null);
    expect(kit.answerTo(token)).toEqual({ type: 'reply', value: null });
    expect(askHeld(kit, 'state').io.operation).toBe('state');
  });

  it('tidies soon after an append, pass after pass until nothing is left', () => {
    const kit = new ActorKit(captureWriter);
    append(kit, 1, 1);
    expect(Object.keys(kit.timers())).toEqual(['tidy']);
    kit.advance(300);
    const [first] = kit.takeEffectsOf('io');
    expect(first?.operation).toBe('tidy');
    kit.finish(first!, pass(20));
    expect(Object.keys(kit.timers())).toEqual(['tidy']);
    kit.advance(100);
    const [second] = kit.takeEffectsOf('io');
    kit.finish(second!, pass(0));
    expect(kit.timers()).toEqual({});
  });

  it('tidies between exchanges that never pause', () => {
    const kit = new ActorKit(captureWriter);
    let passes = 0;
    for (let id = 1; id <= 300; id += 3) {
      append(kit, id, id + 2);
      kit.advance(100);
      for (const effect of kit.takeEffectsOf('io')) {
        passes++;
        kit.finish(effect, pass(3));
      }
    }
    expect(passes).toBeGreaterThan(20);
  });

  /** @returns the part of the time that tidying takes if an append of this many exchanges comes every 20 ms */
  function tidyUnderLoad(
    kit: ActorKit,
    share: number,
    { exchanges = 1, bodies = [] as Buffer[], took_ms = 20 } = {},
  ): number {
    let spent = 0;
    let passes = 0;
    // The kit's clock stands still during a pass.
    for (let at = 0, id = 1; at < 10_000; at += 20, id += exchanges) {
      append(kit, id, id + exchanges - 1, bodies);
      kit.advance(20);
      for (const effect of kit.takeEffectsOf('io')) {
        // The first pass does not count: the writer cannot know yet that the appends will go on.
        if (passes++ > 0) spent += took_ms;
        kit.finish(effect, pass(7, took_ms, share));
      }
    }
    return spent / (10_000 + spent);
  }

  it.each([
    ['in great numbers', { exchanges: 20 }],
    ['with large bodies', { bodies: [Buffer.alloc(3 << 20)] }],
  ])('gives tidying the share that the log grants while exchanges come %s', (_how, load) => {
    for (const share of [0.1, 0.25, 0.5, 0.8]) {
      const taken = tidyUnderLoad(new ActorKit(captureWriter), share, load);
      expect(taken).toBeLessThanOrEqual(share * 1.05);
      expect(taken).toBeGreaterThan(share * 0.6);
    }
  });

  it('tidies about once a second, however small the share', () => {
    const taken = tidyUnderLoad(new ActorKit(captureWriter), 0.001, { exchanges: 20, took_ms: 20 });
    expect(taken).toBeGreaterThan(0.015);
  });

  it('gives tidying at most a twentieth of a core while appends queue up', () => {
    const kit = new ActorKit(captureWriter);
    const held = Array.from({ length: 8 }, () => askHeld(kit, 'append', { slabs: 0 }));
    expect(tidyUnderLoad(kit, 0.5, { exchanges: 20 })).toBeLessThanOrEqual(0.0525);
    for (const { io } of held) kit.fail(io, IO_ERROR);
    expect(tidyUnderLoad(kit, 0.5, { exchanges: 20 })).toBeGreaterThan(0.3);
  });

  it('makes another pass for exchanges that arrived during a pass that found nothing', () => {
    const kit = new ActorKit(captureWriter);
    append(kit, 1, 1);
    kit.advance(300);
    const [first] = kit.takeEffectsOf('io');
    append(kit, 2, 2);
    kit.finish(first!, pass(0));
    kit.advance(300);
    expect(kit.takeEffectsOf('io').map(({ operation }) => operation)).toEqual(['tidy']);
  });

  it('tidies up after an earlier process, even without an append', () => {
    const kit = new ActorKit(captureWriter);
    const { io } = askHeld(kit, 'open');
    kit.finish(io, null);
    kit.advance(300);
    const [first] = kit.takeEffectsOf('io');
    expect(first?.operation).toBe('tidy');
    kit.finish(first!, pass(0));
    expect(kit.timers()).toEqual({});
  });

  it('stops tidying once it is killed', () => {
    const kit = new ActorKit(captureWriter);
    kit.ask('append', { slabs: 0 });
    kit.ask('kill', null);
    expect(kit.timers()).toEqual({});
  });
});
