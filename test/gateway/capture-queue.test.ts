/**
 * The queue before the writer, with a writer and a clock that the test controls: how retries and drops affect other
 * exchanges.
 */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { BodyMemory } from '../../actors/capture-writer/body-memory.ts';
import {
  CaptureFailure,
  type DropCause,
  type FailureCause,
  type SetApart,
} from '../../src/domain/capture-cause.ts';
import {
  CaptureQueue,
  type CaptureQueueOptions,
  type CaptureWriter,
  type ExchangeBatch,
} from '../../src/gateway/capture/capture-queue.ts';
import { QueuePlaces } from '../../src/gateway/capture/queue-places.ts';
import { makeExchange } from '../storage/captured.ts';

class PathBatch implements ExchangeBatch {
  readonly paths: string[] = [];

  add(exchange: Parameters<ExchangeBatch['add']>[0]): void {
    this.paths.push(exchange.path);
  }
}

/** A writer whose appends each wait for the test. */
class ScriptedWriter implements CaptureWriter<PathBatch> {
  readonly memory = new BodyMemory();
  readonly appends: {
    paths: string[];
    queue_fill: number;
    succeed: (setApart?: readonly SetApart[]) => void;
    fail: (why: FailureCause) => void;
  }[] = [];

  openBatch(): PathBatch {
    return new PathBatch();
  }

  append(batch: PathBatch, queue_fill: number): Promise<readonly SetApart[]> {
    const { promise, resolve, reject } = Promise.withResolvers<readonly SetApart[]>();
    this.appends.push({
      paths: batch.paths,
      queue_fill,
      succeed: (setApart = []) => resolve(setApart),
      fail: (why) => reject(new CaptureFailure(why)),
    });
    return promise;
  }

  /** The n-th append; advances the clock until it arrives. */
  async nth(count: number) {
    while (this.appends.length < count) await vi.advanceTimersToNextTimerAsync();
    return this.appends[count - 1]!;
  }
}

interface Scripted {
  queue: CaptureQueue;
  writer: ScriptedWriter;
  submit: (path: string, bytes?: number) => void;
}

function makeQueue(options: Partial<CaptureQueueOptions> = {}): Scripted {
  const writer = new ScriptedWriter();
  const limits = { max_queue: 100, max_queue_bytes: 1e6, max_capture_bytes: 1e5, ...options };
  const queue = new CaptureQueue(writer, limits);
  const submit = (path: string, bytes = 100): void => {
    const tee = queue.begin()!;
    tee.add(tee.request, Buffer.alloc(bytes));
    const { request_body, response_body, ...exchange } = makeExchange({ path });
    queue.submit(tee, {
      ...exchange,
      request_form: { headers: exchange.request_headers, varying: [] },
      request_cells: tee.request.cells,
      request_kept_bytes: tee.request.kept_bytes,
      response_cells: tee.response.cells,
      response_kept_bytes: tee.response.kept_bytes,
    });
  };
  return { queue, writer, submit };
}

// On a busy machine, 100 ms may pass between any two lines of a test.
beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }));
afterEach(() => void vi.useRealTimers());

/** Lets all pending promises settle without advancing the clock. */
async function spread(): Promise<void> {
  await vi.advanceTimersByTimeAsync(0);
}

describe('the capture queues of several threads', () => {
  it('together hold at most GW_MAX_QUEUE exchanges', async () => {
    for (const [most, threads] of [
      [5, 2],
      [1, 3],
      [7, 3],
    ] as const) {
      const memory = QueuePlaces.allocate();
      const queues = Array.from({ length: threads }, () =>
        makeQueue({ max_queue: most, places: new QueuePlaces(most, memory) }),
      );
      const fill = () => {
        for (const { queue, submit } of queues)
          for (let at = 0; at < most; at++) {
            const tee = queue.begin();
            queue.cancel(tee);
            if (tee !== null) submit('/a');
          }
      };
      fill();
      const held = () => queues.reduce((sum, { queue }) => sum + queue.counters().queue_depth, 0);
      expect(held(), `${most} on ${threads}`).toBe(most);
      // Stored exchanges free places that any thread may use.
      for (const { writer } of queues) {
        if (queues.some(({ queue, writer: own }) => own === writer && queue.counters().queue_depth === 0))
          continue;
        (await writer.nth(1)).succeed();
      }
      await spread();
      expect(held()).toBe(0);
      const last = queues.at(-1)!;
      last.submit('/b');
      expect(held()).toBe(1);
    }
  });
});

describe('the capture queue', () => {
  it('continues after a failed batch whose retry was lost', async () => {
    const { queue, writer, submit } = makeQueue();
    submit('/a');
    (await writer.nth(1)).fail('disk_full');
    const second = await writer.nth(2);
    expect(second.paths).toEqual(['/a']);
    submit('/b');
    second.fail('lost_with_writer');
    const third = await writer.nth(3);
    expect(third.paths).toEqual(['/b']);
    third.succeed();
    await queue.settle(1_000);
    expect(queue.counters()).toMatchObject({
      attempted: 2,
      captured: 1,
      dropped: 1,
      in_flight: 0,
      errors: 2,
      queue_bytes: 0,
    });
  });

  it('is settled only when the retried batch is written as well', async () => {
    const { queue, writer, submit } = makeQueue();
    submit('/a');
    const first = await writer.nth(1);
    submit('/b');
    const second = await writer.nth(2);
    let isSettled = false;
    const settled = queue.settle(10_000).then(() => {
      isSettled = true;
    });
    submit('/c');
    first.fail('disk_full');
    second.succeed();
    const rest = new Set<string>();
    for (const count of [3, 4]) {
      const append = await writer.nth(count);
      for (const path of append.paths) rest.add(path);
      if (!rest.has('/a')) expect(isSettled, 'settled before /a is written').toBe(false);
      append.succeed();
      await spread();
    }
    await settled;
    expect(rest).toEqual(new Set(['/a', '/c']));
    expect(queue.counters()).toMatchObject({ captured: 3, dropped: 0, queue_depth: 0, queue_bytes: 0 });
  });

  it('drops waiting exchanges and waiting retries when it is killed', async () => {
    const { queue, writer, submit } = makeQueue();
    submit('/a');
    (await writer.nth(1)).fail('disk_full');
    submit('/b');
    await spread();
    queue.kill();
    await queue.settle(10_000);
    expect(queue.counters()).toMatchObject({ captured: 0, dropped: 2, in_flight: 0, queue_bytes: 0 });
    expect(queue.begin()).toBeNull();
  });
});

describe('an exchange that is not stored', () => {
  const apart = (provider: string, is_turn: boolean): SetApart => ({
    ...{ cause: 'unstorable', provider, is_turn, aborted: false },
    ...{ path: '/x', bytes: 1, error: 'RangeError', at: [] },
  });

  it('because it cannot be stored is subtracted from every count of stored exchanges', async () => {
    const { queue, writer, submit } = makeQueue();
    for (const path of ['/a', '/b', '/c']) submit(path);
    (await writer.nth(1)).succeed([apart('anthropic', true)]);
    await queue.settle(1_000);
    const counters = queue.counters();
    expect(counters).toMatchObject({ attempted: 3, captured: 2, dropped: 1, in_flight: 0, turns: 2 });
    expect(counters).toMatchObject({ queue_depth: 0, queue_bytes: 0, errors: 1, dropping: ['unstorable'] });
    expect(counters.by_provider).toEqual({ anthropic: { captured: 2, turns: 2 } });
    expect(counters.errors_by_cause.unstorable).toBe(1);
    expect(counters.dropped_by_cause.unstorable).toBe(1);
  });

  it.each([
    ['disk_full', 'disk_full'],
    ['damaged', 'damaged'],
    ['writer_down', 'writer_down'],
    ['writer_busy', 'queue_full'],
  ] as const)('behind a writer that reports %s is dropped with the cause %s', async (failure, cause) => {
    const told: [DropCause, number][] = [];
    const { queue, writer, submit } = makeQueue({ max_queue: 2, onDrop: (...drop) => told.push(drop) });
    submit('/a');
    submit('/b');
    expect(queue.begin()).toBeNull();
    expect(queue.counters().dropped_by_cause).toMatchObject({ queue_full: 1 });
    expect(queue.counters().failing).toBeNull();
    (await writer.nth(1)).fail(failure);
    await spread();
    expect(queue.begin()).toBeNull();
    const counters = queue.counters();
    expect(counters.failing).toMatchObject({ cause: failure });
    expect(counters.errors_by_cause[failure]).toBe(1);
    expect(counters.dropped_by_cause[cause]).toBe(cause === 'queue_full' ? 2 : 1);
    expect(told).toEqual([
      ['queue_full', 1],
      [cause, 1],
    ]);
    (await writer.nth(2)).succeed();
    await spread();
    expect(queue.counters().failing).toBeNull();
  });

  it('because it was cancelled later is in no count, even if a write fails meanwhile', async () => {
    const { queue, writer, submit } = makeQueue({ max_queue: 1 });
    submit('/a');
    expect(queue.begin()).toBeNull();
    (await writer.nth(1)).fail('disk_full');
    await spread();
    queue.cancel(null);
    const { attempted, dropped, dropped_by_cause } = queue.counters();
    expect({ attempted, dropped }).toEqual({ attempted: 1, dropped: 0 });
    expect(Object.values(dropped_by_cause).every((count) => count === 0)).toBe(true);
  });
});

describe('batches at the writer', () => {
  it('are at most three, except that large batches do not count', async () => {
    const large = 16 << 20;
    const { queue, writer, submit } = makeQueue({ max_queue_bytes: 20 * large, max_capture_bytes: large });
    for (let at = 1; at <= 17; at++) submit(`/${at}`, large);
    submit('/small');
    await vi.advanceTimersByTimeAsync(1_000);
    expect(writer.appends.map(({ paths }) => paths)).toEqual(
      Array.from({ length: 16 }, (_, at) => [`/${at + 1}`]),
    );

    writer.appends[0]!.succeed();
    await spread();
    expect(writer.appends[16]!.paths).toEqual(['/17', '/small']);
    submit('/next');
    await vi.advanceTimersByTimeAsync(1_000);
    for (let at = 1; at < 14; at++) {
      expect(writer.appends.length).toBe(17);
      writer.appends[at]!.succeed();
      await spread();
    }
    writer.appends[14]!.succeed();
    await spread();
    expect(writer.appends[17]!.paths).toEqual(['/next']);
    for (const at of [15, 16, 17]) writer.appends[at]!.succeed();
    await queue.settle(1_000);
    expect(queue.counters()).toMatchObject({ attempted: 19, captured: 19, in_flight: 0, queue_bytes: 0 });
  });

  it('say how full the queue is, by exchanges or by bytes', async () => {
    const { queue, writer, submit } = makeQueue({ max_queue: 10, max_queue_bytes: 100_000 });
    submit('/a', 100);
    expect((await writer.nth(1)).queue_fill).toBeCloseTo(0.1);
    submit('/b', 60_000);
    expect((await writer.nth(2)).queue_fill).toBeCloseTo(0.601);
    for (const { succeed } of writer.appends) succeed();
    await queue.settle(1_000);
    submit('/c', 100);
    expect((await writer.nth(3)).queue_fill).toBeCloseTo(0.1);
    writer.appends[2]!.succeed();
    await queue.settle(1_000);
  });
});

describe('batches that wait for a retry', () => {
  it('are retried at once when the writer is back', async () => {
    const { queue, writer, submit } = makeQueue();
    submit('/a');
    // After three failures in a row, the next pause would be 400 ms.
    for (let tries = 1; tries <= 2; tries++) (await writer.nth(tries)).fail('disk_full');
    (await writer.nth(3)).fail('disk_full');
    await vi.advanceTimersByTimeAsync(399);
    expect(queue.counters().errors).toBe(3);
    expect(writer.appends).toHaveLength(3);
    queue.retryNow();
    expect(writer.appends).toHaveLength(4);
    writer.appends[3]!.succeed();
    await queue.settle(1_000);
    expect(queue.counters()).toMatchObject({ captured: 1, dropped: 0, queue_bytes: 0 });
  });

  it('are dropped at once by a kill', async () => {
    const { queue, writer, submit } = makeQueue();
    submit('/a');
    (await writer.nth(1)).fail('disk_full');
    await spread();
    expect(queue.counters().errors).toBe(1);
    queue.kill();
    expect(queue.counters()).toMatchObject({ dropped: 1, in_flight: 0, queue_depth: 0, queue_bytes: 0 });
  });
});
