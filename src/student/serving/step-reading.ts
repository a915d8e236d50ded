/**
 * Reads a request as the student sees it. All golden and live steps are read by this file, so the same request always
 * gives the same step. Pure; teaching and the student's thread.
 */

import type { ApiShape } from '../../domain/exchange.ts';
import type { NormalRequest } from '../../domain/turn.ts';
import type { JsonObject } from '../../providers/json-reading.ts';
import { NormalReading, pairCalls } from '../../providers/normal-reading.ts';
import { WIRES as FORMATS } from '../../providers/wires.ts';
import { digestStep, type StepDigest } from '../model/step.ts';
import { readBetas } from '../model/step-extras.ts';
import { StepMarks } from '../model/step-marks.ts';
import { chatCompletionsWire } from './chat-completions-wire.ts';
import { messagesWire } from './messages-wire.ts';
import { API_VERSIONS, type ApiVersion, RELEGATION_WIRES, type RelegationWire } from './protocol.ts';
import { responsesWire } from './responses-wire.ts';
import type { Wire, WireHead } from './wire.ts';

export const WIRES: Readonly<Record<RelegationWire, Wire>> = {
  messages: messagesWire,
  chat_completions: chatCompletionsWire,
  responses: responsesWire,
};

/**
 * Finds the wire of a request.
 * @returns null for a request whose form no student answers
 */
export function wireOf(shape: ApiShape | null): Wire | null {
  const name = RELEGATION_WIRES.find((wire) => wire === shape);
  return name === undefined ? null : WIRES[name];
}

/**
 * Reads a request into the normal form.
 * @returns null when the request exceeds the reading bounds
 */
export function readWireRequest(wire: Wire, body: JsonObject): NormalRequest | null {
  const reading = new NormalReading();
  const request = wire.readRequest(body, reading);
  if (reading.isOver) return null;
  pairCalls(request.messages, []);
  return request;
}

/**
 * Makes the step of a request that {@link readWireRequest} has read.
 * @param at_ms time of the request; null when unknown
 */
export function digestWireStep(
  wire: Wire,
  request: NormalRequest,
  body: JsonObject,
  head: WireHead,
  at_ms: number | null,
  marks = new StepMarks(),
): StepDigest {
  const settings = wire.readSettings(body);
  // Agents of different wires are different, even if everything else is equal.
  if (wire.name !== 'messages') settings.wire = wire.name;
  const extras = {
    betas: readBetas(head.betas),
    breaches: wire.findBreaches(body, head),
    at_ms,
    settings,
    unsupported: wire.findUnsupported(body),
    origin: head.origin,
  };
  return digestStep(request, extras, marks);
}

export interface ReadStep {
  request: NormalRequest;
  step: StepDigest;
}

/**
 * Reads a request as a step.
 * @param body parsed JSON of any shape
 * @param headers flat [name, value, …]; names in any case
 * @param origin where the request arrived, as named by `nameOrigin`
 * @param at_ms time of the request; null when unknown
 * @param marks collects the step's marks; for explanations
 * @returns null when the request exceeds the reading bounds
 */
export function readStep(
  wire: Wire,
  body: unknown,
  headers: readonly string[],
  origin = '',
  at_ms: number | null = null,
  marks?: StepMarks,
): ReadStep | null {
  const isObject = typeof body === 'object' && body !== null && !Array.isArray(body);
  const object = isObject ? (body as JsonObject) : {};
  const request = readWireRequest(wire, object);
  if (request === null) return null;
  const head = { ...readHead(wire.name, headers), origin };
  return { request, step: digestWireStep(wire, request, object, head, at_ms, marks) };
}

function readHead(wire: RelegationWire, headers: readonly string[]): Omit<WireHead, 'origin'> {
  const betas: string[] = [];
  const { beta_header } = FORMATS[wire].served;
  let version: ApiVersion = API_VERSIONS[0];
  for (let at = 0; at + 1 < headers.length; at += 2) {
    const name = headers[at]!.toLowerCase();
    if (name === beta_header) betas.push(headers[at + 1]!);
    else if (name === 'anthropic-version')
      version = API_VERSIONS.find((known) => known === headers[at + 1]!.trim()) ?? version;
  }
  return { betas, api_version: version };
}
