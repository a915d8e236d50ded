/**
 * Builds the JSON body of a request to the service behind a student, in the wire format of that service. Pure; teaching
 * and the student's thread.
 */

import type { JsonObject } from '../../providers/json-reading.ts';
import type { StudentKind } from '../model/manifest.ts';
import { toChatRequest } from './service-chat-completions.ts';
import { toMessagesRequest } from './service-messages.ts';
import type { ServiceStep } from './service-step.ts';

/**
 * Writes the step as a request in the service's wire format (`style`).
 * @throws UntranslatableStep if that format cannot express the step
 */
export function writeServiceRequest(
  { style, model }: Extract<StudentKind, { kind: 'http' }>,
  step: ServiceStep,
): JsonObject {
  return style === 'messages' ? toMessagesRequest(step, model) : toChatRequest(step, model);
}
