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
): { token: number; io: EffectOf<'io'> } {
  const answer = kit.ask(name, payload);
  if (answer.type !== 'held') throw new Error(`answered with ${answer.type}`);
  const [io, ...rest] = kit.takeEffectsOf('io');
  expect(rest).toEqual([]);
  expect(io?.port).toBe(CAPTURE_LOG_PORT);
  return { token: answer.token, io: io! };
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

  it('tidies when appends have paused, pass after pass until nothing is left', () => {
    const kit = new ActorKit(captureWriter);
    kit.ask('append', { slabs: 0 });
    expect(Object.keys(kit.timers())).toEqual(['tidy']);
    // Everything that came since the timer was set delays it once more.
    kit.advance(300);
    kit.takeEffects();
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
