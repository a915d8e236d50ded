/** Asks to actors that move to another process before they answer. */
import { describe, expect, it } from 'vitest';
import { RunClient } from '../../actors/run/client.ts';
import { UsageMeterClient } from '../../actors/usage-meter/client.ts';
import type { Asker, AskOptions } from '../../src/runtime/actor-client.ts';
import { askOwner } from '../../src/runtime/ask-owner.ts';
import { RuntimeError, type RuntimeErrorCode, runtimeError } from '../../src/runtime/error.ts';

const TO = { kind: 'ledger', key: 'a' };

/** Answers each ask with the next of these codes, and then with its number. */
class MovingAsker implements Asker {
  readonly asked: { name: string; payload: unknown; options: AskOptions | undefined }[] = [];
  readonly #codes: RuntimeErrorCode[];

  constructor(...codes: RuntimeErrorCode[]) {
    this.#codes = codes;
  }

  async ask(_to: unknown, name: string, payload: unknown, options?: AskOptions): Promise<unknown> {
    this.asked.push({ name, payload, options });
    const code = this.#codes.shift();
    if (code !== undefined) throw new RuntimeError(runtimeError(code, code));
    return this.asked.length;
  }

  tell(): boolean {
    return false;
  }
}

function moved(times: number): RuntimeErrorCode[] {
  return new Array(times).fill('actor_moved');
}

describe('an ask to an actor that moves', () => {
  it('is repeated at most five times', async () => {
    expect(await askOwner(new MovingAsker(...moved(5)), TO, 'add', 1)).toBe(6);
    const unlucky = new MovingAsker(...moved(10));
    await expect(askOwner(unlucky, TO, 'add', 1)).rejects.toMatchObject({
      code: 'actor_moved',
      retryable: true,
    });
    expect(unlucky.asked).toHaveLength(6);
    expect(new Set(unlucky.asked.map(({ name, payload }) => `${name} ${payload}`))).toEqual(
      new Set(['add 1']),
    );
  });

  it('is repeated within its deadline', async () => {
    const asker = new MovingAsker(...moved(5));
    const bodies = [new Uint8Array(1)];
    await askOwner(asker, TO, 'add', 1, { deadline_ms: 60_000, bodies });
    const deadlines = asker.asked.map(({ options }) => options!.deadline_ms!);
    expect(deadlines).toEqual(deadlines.toSorted((a, b) => b - a));
    expect(deadlines.every((ms) => ms > 0 && ms <= 60_000)).toBe(true);
    expect(asker.asked.every(({ options }) => options!.bodies === bodies)).toBe(true);
    const late = new MovingAsker(...moved(5));
    await expect(askOwner(late, TO, 'add', 1, { deadline_ms: 0 })).rejects.toMatchObject({
      code: 'actor_moved',
    });
    expect(late.asked).toHaveLength(1);
  });

  it.each<RuntimeErrorCode>(['actor_restarted', 'storage_unavailable', 'deadline_exceeded', 'host_down'])(
    'is not repeated after %s, because it may have been handled',
    async (code) => {
      const asker = new MovingAsker('actor_moved', code);
      await expect(askOwner(asker, TO, 'add', 1)).rejects.toMatchObject({ code });
      expect(asker.asked).toHaveLength(2);
    },
  );
});

it('the clients of runs and usage meters repeat their asks', async () => {
  const scope = { org_id: 'org', project_id: null };
  const runs = new MovingAsker('actor_moved');
  expect(await new RunClient(runs).finish(scope, 'run', 'success')).toBe(2);
  const meters = new MovingAsker('actor_moved');
  expect(await new UsageMeterClient(meters).count('org', 'project', {})).toBe(2);
  const unlucky = new RunClient(new MovingAsker(...moved(10)));
  await expect(unlucky.finish(scope, 'run', 'success')).rejects.toMatchObject({ code: 'unavailable' });
});
