/** A limited number of pieces of work per tick, by default one, in the order of arrival. */
import { describe, expect, it } from 'vitest';
import { TickQueue } from '../../src/std/tick-queue.ts';

const nextTick = () => new Promise<void>((resolve) => setImmediate(resolve));

describe('a queue for turns', () => {
  it('admits the first at once', async () => {
    const done: number[] = [];
    void new TickQueue().next().then(() => done.push(1));
    await Promise.resolve();
    await Promise.resolve();
    expect(done).toEqual([1]);
  });

  it('admits one caller per tick, in order, after the deferred work of the previous one', async () => {
    const queue = new TickQueue();
    const done: string[] = [];
    const work = async (name: string) => {
      await queue.next();
      done.push(name);
      setImmediate(() => done.push(`${name} sent`));
    };
    await Promise.all(['a', 'b', 'c'].map(work));
    await nextTick();
    expect(done).toEqual(['a', 'a sent', 'b', 'b sent', 'c', 'c sent']);
  });

  it('admits several callers per tick if configured', async () => {
    const queue = new TickQueue(2);
    const done: string[] = [];
    const work = async (name: string) => {
      await queue.next();
      done.push(name);
      setImmediate(() => done.push(`${name} sent`));
    };
    await Promise.all(['a', 'b', 'c', 'd', 'e'].map(work));
    await nextTick();
    expect(done).toEqual(['a', 'b', 'a sent', 'b sent', 'c', 'd', 'c sent', 'd sent', 'e', 'e sent']);
  });

  it('admits a caller at once again when all have left', async () => {
    const queue = new TickQueue();
    await Promise.all([queue.next(), queue.next()]);
    for (let tick = 0; tick < 3; tick++) await nextTick();
    let hasGone = false;
    void queue.next().then(() => {
      hasGone = true;
    });
    await Promise.resolve();
    await Promise.resolve();
    expect(hasGone).toBe(true);
  });

  it('keeps the order of callers that arrive while others wait', async () => {
    const queue = new TickQueue();
    const done: string[] = [];
    const work = async (name: string, then?: string) => {
      await queue.next();
      done.push(name);
      if (then !== undefined) await work(then);
    };
    await Promise.all([work('a', 'd'), work('b'), work('c')]);
    expect(done).toEqual(['a', 'b', 'c', 'd']);
  });
});
