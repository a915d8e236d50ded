/**
 * A Messages request as the student sees it: the one way from a body to a step, for golden steps and live ones alike, so
 * that the same request is the same step in both. Pure; analysis and the student's thread.
 */

import type { NormalRequest } from '../../domain/turn.ts';
import { readNormalMessages } from '../../providers/messages/normal-turn.ts';
import { NormalReading, pairCalls } from '../../providers/normal-reading.ts';
import { digestStep, type StepDigest } from '../model/step.ts';
import { readStepExtras } from '../model/step-extras.ts';

export interface MessagesStep {
  request: NormalRequest;
  step: StepDigest;
}

/**
 * @param body parsed JSON, whatever it is
 * @param headers flat [name, value, …]; names in any case
 * @returns null when the request has more in it than is read
 */
export function readMessagesStep(body: unknown, headers: readonly string[]): MessagesStep | null {
  const reading = new NormalReading();
  const request = readNormalMessages(body, reading);
  if (reading.isOver) return null;
  pairCalls(request.messages, []);
  const betas: string[] = [];
  for (let at = 0; at + 1 < headers.length; at += 2) {
    if (headers[at]!.toLowerCase() === 'anthropic-beta') betas.push(headers[at + 1]!);
  }
  return { request, step: digestStep(request, readStepExtras(body, betas)) };
}
