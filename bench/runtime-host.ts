/** The actor thread that bench/runtime.ts measures: an actor that answers, one that counts, one that persists. */

import { runActorThread, type ThreadTask } from '../src/runtime/actor-thread.ts';
import type { Behaviour } from '../src/runtime/protocol.ts';
import { DEFAULT_KIND_POLICY } from '../src/runtime/supervision.ts';
import { runOwnThread } from '../src/std/own-thread.ts';
import { LmdbJournal } from '../src/storage/lmdb/journal.ts';

export interface BenchHostOptions {
  journal_path: string;
}

type EchoProtocol = {
  echo: { request: unknown; reply: unknown };
  /** Sent in large numbers. The actor counts them and the length of their bodies. */
  swallow: { request: unknown; reply: undefined };
  swallowed: { request: null; reply: { messages: number; bytes: number } };
};

const echo: Behaviour<EchoProtocol, { messages: number; bytes: number }> = {
  kind: 'echo',
  initial: () => ({ messages: 0, bytes: 0 }),
  handlers: {
    echo: (_state, message, context) => context.reply(message),
    swallow(state, _message, context) {
      state.messages++;
      for (const body of context.bodies) state.bytes += body.length;
    },
    swallowed(state, _message, context) {
      context.reply({ ...state });
      state.messages = 0;
      state.bytes = 0;
    },
  },
  internal: {},
};

type CounterProtocol = { add: { request: number; reply: number } };

const counter: Behaviour<CounterProtocol, number, number> = {
  kind: 'counter',
  initial: () => 0,
  persistence: {
    apply: (sum, amount) => sum + amount,
    snapshot: { version: 1, every_events: 1_000, encode: (sum) => sum, decode: (data) => data as number },
  },
  handlers: { add: (_sum, amount, context) => context.reply(context.persist(amount)) },
  internal: {},
};

const POLICY = { ...DEFAULT_KIND_POLICY, mailbox_capacity: 1_000_000, mailbox_bytes: 2 ** 40 };

/** Runs the thread; the pool calls it with its task. */
async function benchHost(task: ThreadTask<BenchHostOptions>): Promise<void> {
  const journal = new LmdbJournal(task.options.journal_path);
  await runActorThread(task, {
    kinds: [
      { behaviour: echo, policy: POLICY },
      { behaviour: counter, policy: POLICY },
    ],
    journal,
    adapters: {},
    report: (report) => console.error(report),
    dispose: () => journal.close(),
  });
}

runOwnThread(benchHost);
