/** An own thread: its end is reported with its cause, and it continues until its task has settled. */

import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MessageChannel } from 'node:worker_threads';
import { expect, it } from 'vitest';
import { waitForLoading } from '../../src/std/loading-threads.ts';
import { OwnThread } from '../../src/std/own-thread.ts';
import { HeldEntry } from '../fixtures/held-entry.ts';
import type { OwnThreadTask } from '../fixtures/own-thread-entry.ts';

const ENTRY = new URL('../fixtures/own-thread-entry.ts', import.meta.url);

function start(task: OwnThreadTask, options?: ConstructorParameters<typeof OwnThread>[2]): OwnThread {
  return new OwnThread(ENTRY, task, options);
}

it('an own thread ends when its task has returned', async () => {
  const thread = start({ what: 'return' });
  await thread.ended;
  expect(thread.worker.threadId).toBe(-1);
});

it.each([
  ['what the task threw', 'throw', 'thrown by the task'],
  ['what the task threw and no message can contain', 'uncloneable', '() =>'],
  ['the error that nothing caught', 'crash', 'caught by nothing'],
  ['the code with which it exited', 'exit', 'exit 5'],
] as const)('an own thread ends with %s', async (_, what, words) => {
  const thread = start({ what });
  await expect(thread.ended).rejects.toThrow(words);
  expect(thread.worker.threadId).toBe(-1);
});

it('an own thread ends alone when its heap is full', async () => {
  const thread = start({ what: 'fill' }, { heap_mb: 16 });
  await expect(thread.ended).rejects.toMatchObject({ code: 'ERR_WORKER_OUT_OF_MEMORY' });
});

it('an own thread has what was transferred to it', async () => {
  const { port1, port2 } = new MessageChannel();
  const thread = start({ what: 'answer', port: port2 }, { transfer: [port2] });
  expect(await once(port1, 'message')).toEqual(['here']);
  await thread.ended;
});

it('an own thread without open handles continues, counts as loaded, and can be ended', async () => {
  const thread = start({ what: 'wait' });
  expect(await waitForLoading([thread.worker])).toBe(true);
  await thread.end();
  await expect(thread.ended).rejects.toThrow('exit 1');
});

it('an own thread is not ended while it loads', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'own-thread-'));
  const held = new HeldEntry(folder);
  const thread = new OwnThread(held.url, null);
  const letGo = await held.reached();
  const ended = thread.end();
  await letGo();
  await ended;
  expect(held.hasPassed).toBe(true);
  rmSync(folder, { recursive: true, force: true });
});
