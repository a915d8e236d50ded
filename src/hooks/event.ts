/**
 * What an agent's client says to its hooks, as what the service should know of it. Pure; command line.
 *
 * Claude Code and Codex write one JSON object with the same names; Codex has no event for a tool that failed, and does not
 * say of a command whether it did.
 */
import { hash } from 'node:crypto';
import { textOfParts } from '../client/observation.ts';
import type { Step } from '../client/step.ts';

/** Clients whose hooks are known, by the names that the command line takes. */
export const CLIENTS = ['claude-code', 'codex'] as const;
export type ClientName = (typeof CLIENTS)[number];

export function isClient(name: string | undefined): name is ClientName {
  return CLIENTS.includes(name as ClientName);
}

/** A run of the service: a session, or what a session handed to another agent. */
export interface HookRun {
  run_id: string;
  agent_name: string;
  framework: ClientName;
  model: string;
}

export type HookEvent =
  /** Nothing to tell; a good moment to tidy up. */
  | { kind: 'session' }
  | { kind: 'task'; run: HookRun; task: string }
  /**
   * `key`: the same event comes with the same, and so does a later call that has the same id and contents. `unknown`: what the
   * client did not tell. `tellable`: the client takes an answer to it.
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

/** As the service has it. */
const RUN_ID_UNITS = 128;
/** Of a key: more than 128 bits. */
const KEY_UNITS = 24;

type Input = Readonly<Record<string, unknown>>;

/** @returns null for an event of no interest, and for other input */
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

/** Ids of calls may begin anew with each turn, or be the same for all calls. */
function keyOf(parts: readonly unknown[]): string {
  return hash('sha256', JSON.stringify(parts), 'base64url').slice(0, KEY_UNITS);
}

function turnOf(given: Input): string {
  return textOf(given.prompt_id) || textOf(given.turn_id);
}

function isTold(value: unknown): boolean {
  return value !== undefined && value !== null;
}

/** What the agent says at the end of a turn: the monitors compare its claims with what the tools gave. */
function readAnswer(run: HookRun, event_name: string, given: Input): HookEvent | null {
  const thought = textOf(given.last_assistant_message);
  const turn = turnOf(given);
  if (thought === '' || turn === '') return null;
  const step = { action: 'answer', thought };
  return { kind: 'step', run, key: keyOf([turn, thought]), step, unknown: [], tellable: false, event_name };
}

/** Of a shell's result what a person would have seen, of a server's tool the text of its parts; of any other all. */
function readObservation(response: unknown): unknown {
  if (typeof response !== 'object' || response === null) return response;
  // Claude Code hands on the parts alone, Codex the whole result (Model Context Protocol).
  const { stdout, stderr, content } = response as Input;
  const parts = Array.isArray(response) ? response : content;
  if (Array.isArray(parts)) return textOfParts(parts);
  if (typeof stdout !== 'string' || typeof stderr !== 'string') return response;
  return stdout !== '' && stderr !== '' ? `${stdout}\n${stderr}` : stdout || stderr;
}

/** A tool of a server may say of itself that it failed (Model Context Protocol). */
function isFailure(response: unknown): boolean {
  if (typeof response !== 'object' || response === null) return false;
  const { isError, is_error } = response as Input;
  return isError === true || is_error === true;
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
