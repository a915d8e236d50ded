/**
 * Converts a hook event of an agent's client to a report for the service. Pure; command line.
 * Claude Code and Codex write one JSON object with the same field names. Codex has no event for a
 * failed tool, and does not report whether a command failed.
 */
import { hash } from 'node:crypto';
import { textOfParts } from '../client/observation.ts';
import type { Step } from '../client/step.ts';

/** Clients with supported hooks, by their names on the command line. */
export const CLIENTS = ['claude-code', 'codex'] as const;
export type ClientName = (typeof CLIENTS)[number];

export function isClient(name: string | undefined): name is ClientName {
  return CLIENTS.includes(name as ClientName);
}

/** A run of the service: a session, or work that a session delegated to another agent. */
export interface HookRun {
  run_id: string;
  agent_name: string;
  framework: ClientName;
  model: string;
}

export type HookEvent =
  /** An event that is not reported. The hook removes old files at this event. */
  | { kind: 'session' }
  | { kind: 'task'; run: HookRun; task: string }
  /**
   * `key`: identifies the event. A later call with the same id and content has the same key. `unknown`: fields that the
   * client did not send. `tellable`: whether the client accepts an answer to the event.
   */
  | {
      kind: 'step';
      run: HookRun;
      key: string;
      step: Step;
      unknown: readonly ('action_input' | 'observation')[];
      tellable: boolean;
      event_name: string;
    }
  | { kind: 'end'; run: HookRun; outcome: string };

/** The service's maximum length of a run's id. */
const RUN_ID_UNITS = 128;
/** Length of a key: more than 128 bits. */
const KEY_UNITS = 24;

type Input = Readonly<Record<string, unknown>>;

/** Reads an event of a client. @returns null for an unknown event, and for input that is not an event of a run */
export function readHookEvent(client: ClientName, input: unknown): HookEvent | null {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) return null;
  const given = input as Input;
  const run = readRun(client, given);
  if (run === null) return null;
  const event_name = textOf(given.hook_event_name);
  switch (event_name) {
    case 'SessionStart':
      return { kind: 'session' };
    case 'UserPromptSubmit':
      return { kind: 'task', run, task: textOf(given.prompt) };
    case 'PostToolUse':
      return readStep(run, event_name, given, given.tool_response, isFailure(given.tool_response));
    case 'PostToolUseFailure':
      return readStep(run, event_name, given, given.error, true);
    case 'Stop':
      return readAnswer(run, event_name, given);
    case 'SubagentStop':
      return { kind: 'end', run, outcome: 'success' };
    case 'SessionEnd':
      return { kind: 'end', run, outcome: `ended: ${textOf(given.reason) || 'other'}` };
    default:
      return null;
  }
}

function readRun(client: ClientName, given: Input): HookRun | null {
  const session = textOf(given.session_id);
  const agent = textOf(given.agent_id);
  const run_id = agent === '' ? session : `${session}:${agent}`;
  if (session === '' || run_id.length > RUN_ID_UNITS) return null;
  const type = textOf(given.agent_type);
  const agent_name = agent === '' || type === '' ? client : `${client} ${type}`;
  return { run_id, agent_name, framework: client, model: textOf(given.model) };
}

function readStep(
  run: HookRun,
  event_name: string,
  given: Input,
  observation: unknown,
  isError: boolean,
): HookEvent | null {
  const action = textOf(given.tool_name);
  if (action === '') return null;
  const { tool_input: input, tool_use_id: id } = given;
  const key = keyOf([turnOf(given), id, action, input, observation]);
  const step = { action, actionInput: input, observation: readObservation(observation), isError };
  const unknown = [
    ...(isTold(input) ? [] : (['action_input'] as const)),
    ...(isTold(observation) ? [] : (['observation'] as const)),
  ];
  return { kind: 'step', run, key, step, unknown, tellable: true, event_name };
}

/**
 * Makes the key of an event from its parts. These are more than the call's id, because ids may restart in each turn or
 * be the same for all calls.
 */
function keyOf(parts: readonly unknown[]): string {
  return hash('sha256', JSON.stringify(parts), 'base64url').slice(0, KEY_UNITS);
}

function turnOf(given: Input): string {
  return textOf(given.prompt_id) || textOf(given.turn_id);
}

function isTold(value: unknown): boolean {
  return value !== undefined && value !== null;
}

/**
 * Reads the agent's text at the end of a turn; null if the text or the turn's id is missing. The monitors compare its
 * claims with the results of tools.
 */
function readAnswer(run: HookRun, event_name: string, given: Input): HookEvent | null {
  const thought = textOf(given.last_assistant_message);
  const turn = turnOf(given);
  if (thought === '' || turn === '') return null;
  const step = { action: 'answer', thought };
  return { kind: 'step', run, key: keyOf([turn, thought]), step, unknown: [], tellable: false, event_name };
}

/**
 * Reads what a tool returned: the output of a shell as a person would have seen it, the texts of the parts of an MCP
 * server's response, or the whole response of any other tool.
 */
function readObservation(response: unknown): unknown {
  if (typeof response !== 'object' || response === null) return response;
  // Claude Code passes only the parts, Codex the whole result (Model Context Protocol).
  const { stdout, stderr, content } = response as Input;
  const parts = Array.isArray(response) ? response : content;
  if (Array.isArray(parts)) return textOfParts(parts);
  if (typeof stdout !== 'string' || typeof stderr !== 'string') return response;
  return stdout !== '' && stderr !== '' ? `${stdout}\n${stderr}` : stdout || stderr;
}

/** Whether the tool of an MCP server reported a failure. */
function isFailure(response: unknown): boolean {
  if (typeof response !== 'object' || response === null) return false;
  const { isError, is_error } = response as Input;
  return isError === true || is_error === true;
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
