/**
 * The rules that the monitors are measured beside: guards that coding agents ship and simple similarities, as the
 * README of the labelled runs describes them. Each gives the indices of the steps at which it fires.
 */
import type { MonitorStep } from '../../src/domain/monitors/digest.ts';

export interface Baseline {
  name: string;
  fires(steps: readonly MonitorStep[], at: number): boolean;
}

const callOf = (step: MonitorStep): string => `${step.action}\u0000${step.action_input}`;
const firstLine = (step: MonitorStep): string => step.observation.split('\n', 1)[0]!;

function wordsOf(text: string): Set<string> {
  return new Set(text.toLowerCase().match(/[a-z0-9]+/g) ?? []);
}

function jaccard(a: Set<string>, b: Set<string>): number {
  let common = 0;
  for (const word of a) if (b.has(word)) common += 1;
  const union = a.size + b.size - common;
  return union === 0 ? 0 : common / union;
}

function meanInputJaccard(steps: readonly MonitorStep[], at: number): number {
  if (at < 2) return 0;
  const [a, b, c] = steps.slice(at - 2, at + 1).map((step) => wordsOf(step.action_input));
  return (jaccard(a!, b!) + jaccard(b!, c!) + jaccard(a!, c!)) / 3;
}

export const BASELINES: readonly Baseline[] = [
  {
    name: '3 identical calls in a row',
    fires: (steps, at) => at >= 2 && [1, 2].every((ago) => callOf(steps[at - ago]!) === callOf(steps[at]!)),
  },
  {
    name: 'third identical call in 20 steps',
    fires: (steps, at) =>
      steps.slice(Math.max(0, at - 19), at + 1).filter((step) => callOf(step) === callOf(steps[at]!))
        .length >= 3,
  },
  {
    name: 'first result line seen in the previous 5',
    fires: (steps, at) =>
      firstLine(steps[at]!) !== '' &&
      steps.slice(Math.max(0, at - 5), at).some((step) => firstLine(step) === firstLine(steps[at]!)),
  },
  { name: 'last 3 inputs mean Jaccard >= 0.5', fires: (steps, at) => meanInputJaccard(steps, at) >= 0.5 },
  { name: 'last 3 inputs mean Jaccard >= 0.35', fires: (steps, at) => meanInputJaccard(steps, at) >= 0.35 },
  { name: 'always', fires: () => true },
];
