/** The capture writer's decisions, without threads and without a log. */

import { describe, expect, it } from 'vitest';
import { CAPTURE_LOG_PORT, captureWriter } from '../../actors/capture-writer/behaviour.ts';
import { CaptureLogPort, type ExchangeLog } from '../../actors/capture-writer/port.ts';
import { ActorKit, type EffectOf, type KitAnswer } from '../../src/runtime/kit.ts';

it('tells when exchanges cannot be stored, why, and when they are again', async () => {
  let isFull = false;
  const told: (string | null)[] = [];
  const append = async () => {
    if (isFull) throw Object.assign(new Error('write'), { code: 'ENOSPC', path: '/a.mdb' });
    return { first_id: 1, last_id: 0 };
  };
  const port = new CaptureLogPort(
    async () => ({ append }) as unknown as ExchangeLog,
    (reason) => told.push(reason),
  );
  const batch = { slabs: [], cells: [] };
  await port.append(batch);
  isFull = true;
  for (let at = 0; at < 2; at++) await expect(port.append(batch)).rejects.toThrow();
  expect(told).toEqual(['no space is left for /a.mdb']);
  isFull = false;
  for (let at = 0; at < 2; at++) await port.append(batch);
  expect(told).toEqual(['no space is left for /a.mdb', null]);
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
  expect(io?.port).toBe(CAPTURE_LOG_PORT);
  return { token: answer.token, io: io! };
}

/** An append that is stored under these ids. */
function append(kit: ActorKit, firstId: number, lastId: number, bodies: Uint8Array[] = []): void {
  const { io } = askHeld(kit, 'append', { slabs: bodies.length }, bodies);
  kit.finish(io, { first_id: firstId, last_id: lastId });
}

function refusalOf(answer: KitAnswer): { code: string; retryable: boolean } | null {
  return answer.type === 'refuse' ? { code: answer.error.code, retryable: answer.error.retryable } : null;
}

describe('the capture writer', () => {
  it('answers an append when the log has it, and not before', () => {
    const kit = new ActorKit(captureWriter);
    const { token, io } = askHeld(kit, 'append', { slabs: 0 });
    expect(io.operation).toBe('append');
    expect(kit.answerTo(token)).toEqual({ type: 'none' });
    kit.finish(io, { first_id: 3, last_id: 4 });
    expect(kit.answerTo(token)).toEqual({ type: 'reply', value: { first_id: 3, last_id: 4 } });
  });

  it('hands slabs and cells on as they came', () => {
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

  it('refuses everything but its state once it is killed', () => {
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
    kit.finish(first!, 20);
    expect(Object.keys(kit.timers())).toEqual(['tidy']);
    kit.advance(100);
    const [second] = kit.takeEffectsOf('io');
    kit.finish(second!, 0);
    expect(kit.timers()).toEqual({});
  });

  it('tidies among exchanges that never pause', () => {
    const kit = new ActorKit(captureWriter);
    let passes = 0;
    for (let id = 1; id <= 300; id += 3) {
      append(kit, id, id + 2);
      kit.advance(100);
      for (const pass of kit.takeEffectsOf('io')) {
        passes++;
        kit.finish(pass, 3);
      }
    }
    expect(passes).toBeGreaterThan(20);
  });

  it.each([
    ['in great numbers', 100, []],
    ['with large bodies', 1, [Buffer.alloc(3 << 20)]],
  ])('waits while exchanges come %s', (_how, count, bodies) => {
    const kit = new ActorKit(captureWriter);
    for (let id = 1; id <= 100 * count; id += count) {
      append(kit, id, id + count - 1, bodies);
      kit.advance(100);
      expect(kit.takeEffectsOf('io')).toEqual([]);
    }
    kit.advance(600);
    expect(kit.takeEffectsOf('io').map(({ operation }) => operation)).toEqual(['tidy']);
  });

  it('stops tidying when load comes while it is at it', () => {
    const kit = new ActorKit(captureWriter);
    append(kit, 1, 1);
    kit.advance(300 - 15);
    let passes = 0;
    for (let id = 2; id <= 802; id += 8) {
      kit.advance(15);
      for (const pass of kit.takeEffectsOf('io')) {
        passes++;
        kit.finish(pass, 20);
      }
      append(kit, id, id + 7);
    }
    expect(passes).toBeLessThan(12);
  });

  it('makes another pass for what came during one that found nothing', () => {
    const kit = new ActorKit(captureWriter);
    append(kit, 1, 1);
    kit.advance(300);
    const [pass] = kit.takeEffectsOf('io');
    append(kit, 2, 2);
    kit.finish(pass!, 0);
    kit.advance(300);
    expect(kit.takeEffectsOf('io').map(({ operation }) => operation)).toEqual(['tidy']);
  });

  it('tidies up after an earlier process, though no append comes', () => {
    const kit = new ActorKit(captureWriter);
    const { io } = askHeld(kit, 'open');
    kit.finish(io, null);
    kit.advance(300);
    const [pass] = kit.takeEffectsOf('io');
    expect(pass?.operation).toBe('tidy');
    kit.finish(pass!, 0);
    expect(kit.timers()).toEqual({});
  });

  it('tidies no more once it is killed', () => {
    const kit = new ActorKit(captureWriter);
    kit.ask('append', { slabs: 0 });
    kit.ask('kill', null);
    expect(kit.timers()).toEqual({});
  });
});
