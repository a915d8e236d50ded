/** Golden runs of the synthetic families, as the student learns them. Bench process. */

import type { NormalAnswer } from '../../src/domain/turn.ts';
import { readMessagesBlocks } from '../../src/providers/messages/request.ts';
import { NormalReading } from '../../src/providers/normal-reading.ts';
import { type AnswerDigest, digestAnswer } from '../../src/student/model/answer.ts';
import type { LearnedStep } from '../../src/student/model/learned-step.ts';
import type { StepDigest } from '../../src/student/model/step.ts';
import { readStep as readWireStep, WIRES } from '../../src/student/serving/step-reading.ts';
import type { AgentChange } from './agent-changes.ts';
import { FAMILY_NAMES, startRun } from './agent-families.ts';
import type { MessagesAnswer, MessagesRequest } from './agent-family.ts';

/** A step of a golden run, with its original request for the baselines. */
export interface RecordedStep extends LearnedStep {
  family: string;
  is_shifted: boolean;
  request: MessagesRequest;
}

export interface RecordedRun {
  run_id: string;
  is_shifted: boolean;
  steps: RecordedStep[];
}

export function readStep(request: MessagesRequest): StepDigest {
  const read = readWireStep(WIRES.messages, request, []);
  if (read === null) throw new Error('a synthetic request has content that the student does not read');
  return read.step;
}

export function readAnswer(answer: MessagesAnswer): AnswerDigest {
  const normal: NormalAnswer = {
    id: answer.id,
    model: answer.model,
    content: readMessagesBlocks(answer.content, new NormalReading()),
    stop_reason: answer.stop_reason,
    usage: {
      input_tokens: answer.usage.input_tokens,
      output_tokens: answer.usage.output_tokens,
      cache_read_tokens: 0,
      cache_write_tokens: 0,
      cache_write_1h_tokens: null,
    },
    error: null,
  };
  const digest = digestAnswer(normal);
  if (digest === null) throw new Error('a synthetic answer cannot be learnt');
  return digest;
}

/** Records a whole run in which the frontier model answers every step. */
export function recordRun(
  family: string,
  seed: number,
  isShifted = false,
  change: AgentChange | null = null,
): RecordedRun {
  const run = startRun(family, seed, isShifted, change);
  const steps: RecordedStep[] = [];
  for (let request = run.nextRequest(); request !== null; request = run.nextRequest()) {
    const answer = run.askOracle();
    steps.push({
      run_id: run.id,
      family,
      is_shifted: isShifted,
      request,
      step: readStep(request),
      answer: readAnswer(answer),
    });
    run.takeAnswer(answer);
  }
  return { run_id: run.id, is_shifted: isShifted, steps };
}

/** Runs of all families in turn. @param seed sets whose seeds are a million apart share no run */
export function recordRuns(count: number, seed: number, isShifted = false): RecordedRun[] {
  return Array.from({ length: count }, (_, i) =>
    recordRun(FAMILY_NAMES[i % FAMILY_NAMES.length]!, seed + Math.floor(i / FAMILY_NAMES.length), isShifted),
  );
}
