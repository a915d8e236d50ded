/**
 * What to make of what the monitors said of a trace: where it looped, and which of them fired most within a stretch.
 * Pure; actor threads.
 */

import { MONITOR_NAMES, type MonitorName } from '../monitors/names.ts';

/** Monitors that say that the agent gets nowhere. The others say that it did something wrong, which may be long past. */
const LOOP_MONITORS: ReadonlySet<MonitorName> = new Set([
  'infinite_loop',
  'semantic_loop',
  'cyclic_compression',
]);

/** Which monitors fired at each step. */
export type FiredBySteps = readonly (readonly MonitorName[])[];

export function isLooping(fired: readonly MonitorName[] | undefined): boolean {
  return fired?.some((name) => LOOP_MONITORS.has(name)) === true;
}

/** The monitor that fired most between two steps, both included; '' when none did. Ties go by the monitors' order. */
export function findFailureType(fired: FiredBySteps, from: number, to: number): MonitorName | '' {
  const counts = new Map<MonitorName, number>();
  for (let at = from; at <= Math.min(to, fired.length - 1); at++) {
    for (const name of fired[at]!) counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  let most: MonitorName | '' = '';
  for (const name of MONITOR_NAMES) {
    if ((counts.get(name) ?? 0) > (most === '' ? 0 : counts.get(most)!)) most = name;
  }
  return most;
}
