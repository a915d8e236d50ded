/** Tools after whose calls no lookup follows. */
import { describe, expect, it } from 'vitest';
import type { LearnedStep } from '../../src/student/model/learned-step.ts';
import { findFinalTools } from '../../src/teaching/final-tools.ts';
import { callAnswer, makeOrderStep } from '../student/model/made-steps.ts';

/** Runs as the names of the tools that they call, one per step. */
const stepsOf = (runs: string[][]): LearnedStep[] =>
  runs.flatMap((names, run) =>
    names.map((name) => ({ ...makeOrderStep(run), run_id: `r${run}`, answer: callAnswer(name, {}) })),
  );
const finalOf = (runs: string[][]) => [...findFinalTools(stepsOf(runs))].sort();

describe('tools whose results are not checked', () => {
  it('are tools after which hardly any other call follows', () => {
    const usual = Array.from({ length: 20 }, () => ['look', 'book']);
    expect(finalOf(usual)).toEqual(['book']);
    // Several calls of the same tool are not a lookup.
    expect(finalOf(usual.map((run) => [...run, 'book', 'book']))).toEqual(['book']);
    expect(finalOf([...usual, ['look', 'book', 'look', 'book']])).toEqual(['book']);
    expect(finalOf(usual.map((run) => [...run, 'check']))).toEqual(['check']);
  });

  it('do not include a tool that other calls follow as often as it ends a run', () => {
    expect(finalOf(Array.from({ length: 20 }, () => ['run', 'edit', 'run']))).toEqual([]);
  });

  it('do not include tools that only read', () => {
    expect(finalOf(Array.from({ length: 20 }, () => ['open_page', 'open_page']))).toEqual([]);
    expect(finalOf(Array.from({ length: 20 }, () => ['get_order', 'openUrl']))).toEqual([]);
    // A call that opens a ticket changes something. A name that begins with such a verb does not make a call a lookup.
    expect(finalOf(Array.from({ length: 20 }, () => ['get_order', 'open_ticket']))).toEqual(['open_ticket']);
    expect(finalOf(Array.from({ length: 20 }, () => ['get_order', 'listen']))).toEqual(['listen']);
  });

  it('do not include the only tool of an agent that also looks up with it', () => {
    const calls = (inputs: string[][]): LearnedStep[] =>
      inputs.flatMap((commands, run) =>
        commands.map((command) => ({
          ...makeOrderStep(run),
          run_id: `r${run}`,
          answer: callAnswer('shell', { command }),
        })),
      );
    expect([...findFinalTools(calls(Array(20).fill(['cat a', 'sed a', 'test a'])))]).toEqual([]);
    // Another call of the same tool is not a lookup, and with one call per run no call follows.
    expect([...findFinalTools(calls(Array(20).fill(['send a', 'send a'])))]).toEqual(['shell']);
    expect([...findFinalTools(calls(Array(20).fill(['send a'])))]).toEqual(['shell']);
  });
});
