/** The six monitors by their names, as the contract has them: one that is added there is missed here by the check. Browser. */
import type { z } from 'zod';
import type { LIVE_EVENTS } from '../../contract/stream.ts';

export type MonitorName = z.output<typeof LIVE_EVENTS.intervention>['failure_type'];

const WORDS: Record<MonitorName, string> = {
  verification_skip: 'verification skip',
  claim_contradiction: 'claim contradiction',
  cyclic_compression: 'cyclic compression',
  semantic_loop: 'semantic loop',
  silent_topic_drift: 'silent topic drift',
  infinite_loop: 'infinite loop',
};

export const MONITOR_NAMES = Object.keys(WORDS) as MonitorName[];

/** `infinite loop`. */
export const nameOfMonitor = (name: string): string =>
  WORDS[name as MonitorName] ?? name.replaceAll('_', ' ');
