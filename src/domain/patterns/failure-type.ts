/**
 * Interprets the monitors' results for a trace: where it looped, and which monitor fired most in a stretch. Pure; actor
 * threads and the command line.
 */

import { MONITORS } from '../monitors/definitions.ts';
import { MONITOR_NAMES, type MonitorName } from '../monitors/names.ts';

/** Which monitors fired at each step. */
type FiredBySteps = readonly (readonly MonitorName[])[];

/** Whether a fired monitor means that the agent makes no progress. */
export function isLooping(fired: readonly MonitorName[] | undefined): boolean {
  return fired?.some((name) => MONITORS[name].failure !== 'fault') === true;
}

/**
 * Finds the monitor that fired most between two steps, inclusive; '' if none did. Of several monitors with the same
 * number, the first in MONITOR_NAMES counts.
 */
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
