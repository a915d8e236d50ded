/**
 * The rules with which the monitors are compared: guards that coding agents ship, and simple similarities, as the
 * README of the labelled runs describes them. Each rule tells whether it fires at a step.
 */
import type { MonitorStep } from '../../src/domain/monitors/masked-step.ts';

interface Baseline {
  name: string;
  fires(steps: readonly MonitorStep[], at: number): boolean;
}

/** Converts null to an empty text. No text of a labelled run is null. */
const textOf = (known: string | null): string => known ?? '';
const callOf = (step: MonitorStep): string => `${step.action}\u0000${step.action_input}`;
const firstLine = (step: MonitorStep): string => textOf(step.observation).split('\n', 1)[0]!;

function wordsOf(text: string): Set<string> {
  return new Set(text.toLowerCase().match(/\w+/g) ?? []);
}

function jaccard(a: Set<string>, b: Set<string>): number {
  let common = 0;
  for (const word of a) if (b.has(word)) common += 1;
  const union = a.size + b.size - common;
  return union === 0 ? 0 : common / union;
}

function meanInputJaccard(steps: readonly MonitorStep[], at: number): number {
  if (at < 2) return 0;
  const [a, b, c] = steps.slice(at - 2, at + 1).map((step) => wordsOf(textOf(step.action_input)));
  return (jaccard(a!, b!) + jaccard(b!, c!) + jaccard(a!, c!)) / 3;
}

const isSameCall = (a: MonitorStep, b: MonitorStep): boolean => callOf(a) === callOf(b);
const isSameResult = (a: MonitorStep, b: MonitorStep): boolean =>
  isSameCall(a, b) && a.observation === b.observation;

/** Whether the step and the `count - 1` before it are all alike. */
function isRow(
  steps: readonly MonitorStep[],
  at: number,
  count: number,
  isAlike: (a: MonitorStep, b: MonitorStep) => boolean,
): boolean {
  if (at < count - 1) return false;
  return steps.slice(at - count + 1, at).every((step) => isAlike(step, steps[at]!));
}

/** Whether the step and the `count - 1` before it alternate between two calls. */
function isAlternation(steps: readonly MonitorStep[], at: number, count: number): boolean {
  if (at < count - 1 || isSameCall(steps[at]!, steps[at - 1]!)) return false;
  for (let i = at - count + 3; i <= at; i++) if (!isSameCall(steps[i]!, steps[i - 2]!)) return false;
  return true;
}

export const BASELINES: readonly Baseline[] = [
  { name: '3 identical calls in a row', fires: (steps, at) => isRow(steps, at, 3, isSameCall) },
  { name: '5 identical calls in a row', fires: (steps, at) => isRow(steps, at, 5, isSameCall) },
  {
    name: '4 identical calls and results, 3 with errors, or 6 alternating',
    fires: (steps, at) =>
      isRow(steps, at, 4, isSameResult) ||
      isRow(steps, at, 3, (a, b) => isSameCall(a, b) && a.is_error && b.is_error) ||
      isAlternation(steps, at, 6),
  },
  {
    name: '3 identical calls of one tool, others between',
    fires: (steps, at) => {
      const own = steps.slice(0, at + 1).filter((step) => step.action === steps[at]!.action);
      return isRow(own, own.length - 1, 3, isSameCall);
    },
  },
  {
    name: 'third identical call in 20 steps',
    fires: (steps, at) =>
      steps.slice(Math.max(0, at - 19), at + 1).filter((step) => isSameCall(step, steps[at]!)).length >= 3,
  },
  {
    name: 'first result line identical 3 times',
    fires: (steps, at) =>
      firstLine(steps[at]!) !== '' && isRow(steps, at, 3, (a, b) => firstLine(a) === firstLine(b)),
  },
  {
    name: 'first result line seen in the previous 5',
    fires: (steps, at) =>
      firstLine(steps[at]!) !== '' &&
      steps.slice(Math.max(0, at - 5), at).some((step) => firstLine(step) === firstLine(steps[at]!)),
  },
  {
    name: 'last 2 results Jaccard >= 0.8',
    fires: (steps, at) =>
      at >= 1 &&
      jaccard(wordsOf(textOf(steps[at - 1]!.observation)), wordsOf(textOf(steps[at]!.observation))) >= 0.8,
  },
  { name: 'last 3 inputs mean Jaccard >= 0.5', fires: (steps, at) => meanInputJaccard(steps, at) >= 0.5 },
  { name: 'last 3 inputs mean Jaccard >= 0.35', fires: (steps, at) => meanInputJaccard(steps, at) >= 0.35 },
  { name: 'always', fires: () => true },
];
