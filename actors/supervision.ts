/**
 * Supervision as data: the bounds of each kind of actor, what overflow does, and how often it may fail. Any thread.
 */
import { RUN_STEP_KEYS, RUN_STEPS } from '../src/domain/run-rows.ts';
import { USAGE } from '../src/domain/usage.ts';
import { DEFAULT_KIND_POLICY, type KindPolicy } from '../src/runtime/supervision.ts';
import { CAPTURE_WRITER_KIND } from './capture-writer/protocol.ts';
import { LIVE_HUB_KIND } from './live-hub/protocol.ts';
import { PATTERN_INDEX_KIND } from './pattern-index/protocol.ts';
import { RUN_KIND } from './run/protocol.ts';
import { USAGE_METER_KIND } from './usage-meter/protocol.ts';

/** Traces that one thread holds queued. One more is refused until there is room. */
const QUEUED_TRACES = 2_000;

/** One actor a process. The server thread's queue bounds what it sends (GW_MAX_QUEUE); this is the second line. */
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
 * One actor a limited key. A bucket that is not full stays; a full one soon leaves memory, since it comes back full. A
 * message behind a thousand others has waited long enough.
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
 * One actor an organization. Its ring is in memory, so it stays as long as there is room; under a flood the oldest
 * events give way, as they would in the ring.
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
 * One actor a trace that is under way: the bound on living ones is the bound of the queue. Those who wait for one trace
 * hold a timer each. A failure backs off and goes on from what is stored.
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

/** One actor a process; asked once for each key that a thread sees for the first time. */
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

/** One actor a code base in use; stores are written side by side up to `max_io_in_flight`. */
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
 * One actor a run in use, about 10 KB in memory. Agents pause for minutes between steps; what stays is bounded by
 * `max_live` (500 MB a thread), beyond which the longest unused goes to its snapshot. A step that is looked up again
 * holds an io, so that many may.
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

/** One actor a process, whose store is in memory. An import may take seconds, and many retrievals wait for their vector. */
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

/** One actor an organization that uses something now; each message is an event. */
export const USAGE_METER_POLICY: KindPolicy = {
  ...DEFAULT_KIND_POLICY,
  mailbox_capacity: 4_096,
  overflow: 'reject',
  idle_after_ms: 5 * 60_000,
  stopped_for_ms: 1_000,
};

/** Kinds that live on one given thread. Where there are several, searches leave the capture writer's alone. */
export const PINS: Readonly<Record<string, number>> = { [CAPTURE_WRITER_KIND]: 0, [PATTERN_INDEX_KIND]: 1 };

/**
 * Kinds that live on the server threads of the API: asked at every step or retrieval, with short work and no other wait than
 * a commit.
 */
export const SERVER_KINDS: readonly string[] = [LIVE_HUB_KIND, RUN_KIND, USAGE_METER_KIND];

/** Of these, the kinds whose actors live on the thread that first asks for them: a run's requests share a connection. */
export const MOVING_KINDS: readonly string[] = [RUN_KIND];

/**
 * Persistent kinds whose events need only survive the process (`runs.mdb`): written so often that a sync of the disk
 * would be most of their cost. All others are synced before they count (`main.mdb`).
 */
export const QUICK_KINDS: ReadonlySet<string> = new Set<string>([RUN_KIND, USAGE_METER_KIND]);

/**
 * What may reach `runs.mdb` a moment after it was promised in a redo log: steps. Only the run itself reads its steps, and
 * who reads the counters waits for them. Starts and finishes, which others read in tables, are there at once.
 */
export const PROMISED_KINDS: ReadonlySet<string> = new Set<string>([RUN_KIND]);
export const PROMISED_TABLES: ReadonlySet<string> = new Set<string>([RUN_STEPS, RUN_STEP_KEYS, USAGE]);
