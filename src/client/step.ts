/**
 * The step that an agent passes, and the bounded form in which the library stores it until it is
 * sent. Pure; any thread.
 */
import type { RequestOf } from './operations.ts';
import { writeJson } from './wire-json.ts';

/** The body of the request. */
export type StepBody = RequestOf<'logStep'>['body'];

/** The agent's action. Texts are sent as they are, and anything else as JSON. Long texts are cut. */
export interface Step {
  /** The tool's name, or another name of the action. */
  action?: string;
  actionInput?: unknown;
  thought?: string;
  /** The result. */
  observation?: unknown;
  isError?: boolean;
  /** Tokens that the step took. */
  tokens?: number;
}

/**
 * Longest text of each kind, in UTF-16 units. All four texts of a step fit into a request of 5 MB,
 * however they are escaped. The monitors read only a part of each text.
 */
const STEP_TEXT_UNITS = 131_072;
/** The service's maximum of `tokens`. */
const TOKENS_MAX = 100_000_000;
/** Approximate memory of a step besides its texts, in bytes. */
const STEP_BYTES = 300;

interface BoundedStep {
  body: StepBody;
  /** Approximate size in memory. */
  bytes: number;
  /** Descriptions of the texts that were cut. */
  truncated: string[];
}

/**
 * Cuts the texts of a step, and rounds its tokens down to a whole number of at most TOKENS_MAX. An invalid number
 * becomes 0.
 */
export function boundStep(stepIndex: number, step: Step): BoundedStep {
  const truncated: string[] = [];
  const action = boundText('action', step.action, truncated);
  const action_input = boundText('actionInput', step.actionInput, truncated);
  const thought = boundText('thought', step.thought, truncated);
  const observation = boundText('observation', step.observation, truncated);
  const units = action.length + action_input.length + thought.length + observation.length;
  return {
    body: {
      step_index: stepIndex,
      action,
      action_input,
      thought,
      observation,
      is_error: step.isError === true,
      tokens: readTokens(step.tokens),
    },
    bytes: STEP_BYTES + 2 * units,
    truncated,
  };
}

function boundText(name: keyof Step, value: unknown, truncated: string[]): string {
  const text = toText(value);
  if (text.length <= STEP_TEXT_UNITS) return text;
  truncated.push(`${name} has ${text.length} characters, of which ${STEP_TEXT_UNITS} are kept`);
  return detach(cutText(text, STEP_TEXT_UNITS));
}

/**
 * Returns the first `units` UTF-16 units of a text; one fewer if the last one is the first half of a
 * surrogate pair.
 */
export function cutText(text: string, units: number): string {
  if (text.length <= units) return text;
  const last = text.charCodeAt(units - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? units - 1 : units);
}

function toText(value: unknown): string {
  if (typeof value === 'string') return value;
  if (value === undefined || value === null) return '';
  try {
    return writeJson(value) ?? String(value);
  } catch {
    // The value is circular, or JSON cannot represent it.
    return String(value);
  }
}

/** Copies the text, because a slice would keep the whole original text in memory. */
function detach(text: string): string {
  return JSON.parse(JSON.stringify(text)) as string;
}

function readTokens(tokens: unknown): number {
  if (typeof tokens !== 'number' || !(tokens > 0)) return 0;
  return Math.min(Math.floor(tokens), TOKENS_MAX);
}
