/**
 * Supervision as data: the bounds of each kind of actor, the reaction to overflow, and the allowed failures. Any
 * thread.
 */
import { RUN_GATHERED_STEPS, RUN_STEP_KEYS, RUN_STEPS } from '../src/domain/run-rows.ts';
import { USAGE } from '../src/domain/usage.ts';
import { DEFAULT_KIND_POLICY, type KindPolicy } from '../src/runtime/supervision.ts';
import { CAPTURE_WRITER_KIND } from './capture-writer/protocol.ts';
import { LIVE_HUB_KIND } from './live-hub/protocol.ts';
import { PATTERN_INDEX_KIND } from './pattern-index/protocol.ts';
import { RUN_KIND } from './run/protocol.ts';
import { USAGE_METER_KIND } from './usage-meter/protocol.ts';

/** Maximum number of traces in progress on one thread. A further trace is refused until there is room. */
const QUEUED_TRACES = 2_000;

/**
 * One actor per process. The queues of the server threads (GW_MAX_QUEUE) already bound the messages. These bounds are a
 * second limit.
 */
export const CAPTURE_WRITER_POLICY: KindPolicy = {
  ...DEFAULT_KIND_POLICY,
  mailbox_capacity: 1_024,
  mailbox_bytes: 256 * 1024 * 1024,
  overflow: 'reject',
  idle_after_ms: Number.POSITIVE_INFINITY,
  max_live: 1,
  max_io_in_flight: 256,
  stopped_for_ms: 1_000,
};

/**
 * One actor per limited key that has no slot in the shared rate table. A bucket stays in memory until it is full, and
 * is removed soon after that. If a thousand messages wait, a further message would be answered too late.
 */
export const RATE_BUCKET_POLICY: KindPolicy = {
  ...DEFAULT_KIND_POLICY,
  mailbox_capacity: 1_024,
  overflow: 'reject',
  idle_after_ms: 10_000,
  max_timers: 1,
  stopped_for_ms: 1_000,
};

/**
 * One actor per organization. While there is room, the actor stays in memory for a day after its last message, because
 * its ring of events is only in memory. If too many messages wait, the oldest are dropped first, as in the ring.
 */
export const LIVE_HUB_POLICY: KindPolicy = {
  ...DEFAULT_KIND_POLICY,
  mailbox_capacity: 8_192,
  overflow: 'drop_oldest',
  idle_after_ms: 24 * 3_600_000,
  max_live: 1_000,
  max_timers: 1,
  stopped_for_ms: 1_000,
};

/**
 * One actor per trace in progress, so the maximum number of actors in memory bounds the queue. Each caller that waits
 * for a trace has a timer. After a failure, the actor continues from its stored state with a delay.
 */
export const PATTERN_MAKER_POLICY: KindPolicy = {
  ...DEFAULT_KIND_POLICY,
  mailbox_capacity: 32,
  overflow: 'reject',
  idle_after_ms: 5_000,
  max_live: QUEUED_TRACES,
  max_held_replies: 32,
  stopped_for_ms: 5_000,
};

/** One actor per process, which assigns slots to keys. Each thread asks it once for each key that is new to the thread. */
export const RATE_SLOTS_POLICY: KindPolicy = {
  ...DEFAULT_KIND_POLICY,
  mailbox_capacity: 16_384,
  overflow: 'reject',
  idle_after_ms: Number.POSITIVE_INFINITY,
  max_live: 1,
  max_io_in_flight: 16_384,
  max_held_replies: 16_384,
  stopped_for_ms: 1_000,
};

/** One actor per code base in use. It writes up to `max_io_in_flight` findings at the same time. */
export const FINDINGS_INDEX_POLICY: KindPolicy = {
  ...DEFAULT_KIND_POLICY,
  mailbox_capacity: 512,
  idle_after_ms: 5 * 60_000,
  max_live: 128,
  max_io_in_flight: 128,
  max_timers: 1,
  stopped_for_ms: 1_000,
};

/**
 * One actor per run in use, about 10 KB of memory each. Agents pause for minutes between steps, so a run stays in memory
 * for five minutes after its last message, while there is room: `max_live` runs take 500 MB per thread.
 */
export const RUN_POLICY: KindPolicy = {
  ...DEFAULT_KIND_POLICY,
  mailbox_capacity: 256,
  overflow: 'reject',
  idle_after_ms: 5 * 60_000,
  max_live: 50_000,
  max_held_replies: 256,
  max_timers: 1,
  stopped_for_ms: 1_000,
};

/**
 * One actor per process, whose store is in memory. An import may take seconds, and many retrievals wait for their
 * vectors.
 */
export const PATTERN_INDEX_POLICY: KindPolicy = {
  ...DEFAULT_KIND_POLICY,
  mailbox_capacity: 4_096,
  overflow: 'reject',
  idle_after_ms: Number.POSITIVE_INFINITY,
  max_live: 1,
  max_io_in_flight: 1_024,
  max_held_replies: 4_096,
  stopped_for_ms: 1_000,
};

/** One actor per organization that is active now; each message is an event. */
export const USAGE_METER_POLICY: KindPolicy = {
  ...DEFAULT_KIND_POLICY,
  mailbox_capacity: 4_096,
  overflow: 'reject',
  idle_after_ms: 5 * 60_000,
  stopped_for_ms: 1_000,
};

/** Kinds that run on a given thread. With several threads, searches do not run on the capture writer's thread. */
export const PINS: Readonly<Record<string, number>> = { [CAPTURE_WRITER_KIND]: 0, [PATTERN_INDEX_KIND]: 1 };

/**
 * Kinds that run on the server threads of the API. They are asked at every step or retrieval, do little work, and
 * wait only for commits.
 */
export const SERVER_KINDS: readonly string[] = [LIVE_HUB_KIND, RUN_KIND, USAGE_METER_KIND];

/**
 * The kinds of `SERVER_KINDS` whose actors run on the server thread that first sends them a message, because a run's
 * requests usually share a connection.
 */
export const MOVING_KINDS: readonly string[] = [RUN_KIND];

/**
 * Persistent kinds whose events must only survive the process (`runs.mdb`). They write so often that syncing the disk
 * would be most of their cost. The events of all other kinds are synced before they take effect (`main.mdb`).
 */
export const QUICK_KINDS: ReadonlySet<string> = new Set<string>([RUN_KIND, USAGE_METER_KIND]);

/**
 * Kinds whose commits a redo log may acknowledge before they reach `runs.mdb`: steps. Only the run itself reads its
 * steps, and readers of the counters wait until the counters are written. Starts and finishes, which other threads read
 * in tables, are written at once.
 */
export const PROMISED_KINDS: ReadonlySet<string> = new Set<string>([RUN_KIND]);
export const PROMISED_TABLES: ReadonlySet<string> = new Set<string>([
  RUN_STEPS,
  RUN_GATHERED_STEPS,
  RUN_STEP_KEYS,
  USAGE,
]);
