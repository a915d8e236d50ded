/**
 * The definition of every monitor. A name without a definition does not compile. Constants; any thread.
 */

import { CLAIM_CONTRADICTION } from './claim-contradiction.ts';
import { CYCLIC_COMPRESSION } from './cyclic-compression.ts';
import { INFINITE_LOOP } from './infinite-loop.ts';
import type { Monitor } from './monitor.ts';
import { MONITOR_NAMES, type MonitorName } from './names.ts';
import { SEMANTIC_LOOP } from './semantic-loop.ts';
import { SILENT_TOPIC_DRIFT } from './silent-topic-drift.ts';
import { VERIFICATION_SKIP } from './verification-skip.ts';

export const MONITORS: Readonly<Record<MonitorName, Monitor>> = {
  verification_skip: VERIFICATION_SKIP,
  claim_contradiction: CLAIM_CONTRADICTION,
  cyclic_compression: CYCLIC_COMPRESSION,
  semantic_loop: SEMANTIC_LOOP,
  silent_topic_drift: SILENT_TOPIC_DRIFT,
  infinite_loop: INFINITE_LOOP,
};

/** Monitors that detect the same failure in different ways. The agent is told only once. */
export const LOOP_MONITORS: readonly MonitorName[] = MONITOR_NAMES.filter(
  (name) => MONITORS[name].failure === 'loop',
);
