/**
 * Synthetic agent families: each repeats a kind of task with other ids, names, amounts and dates, in a small world with
 * tools that answer, fail and mislead, and with a policy in place of the frontier model. All messages have the form of
 * the Messages API. The same seed gives the same runs. The relegation evaluation uses these families, and so do other
 * benches that need repetitive traffic: they call `startRun`, then `nextRequest` and `takeAnswer` until `nextRequest`
 * returns null. `askOracle` plays the upstream.
 *
 * The policies know nothing of the student. They word the same thing in several ways, reason aloud before some calls,
 * and write free text where a model would (summaries, code). They act on the tools' results, even if another model
 * called the tools, so they can take over from a student in the middle of a run.
 */

import { createPrng, type Prng } from '../../src/std/prng.ts';
import type { AgentChange } from './agent-changes.ts';
import type {
  AgentFamily,
  Fields,
  LoggedCall,
  MessagesAnswer,
  MessagesRequest,
  ToolResult,
  WireBlock,
  WireMessage,
} from './agent-family.ts';
import { REGULAR_FAMILIES } from './agent-regular-worlds.ts';
import { FAMILIES as FIRST_FAMILIES } from './agent-worlds.ts';
import { isRightAnswer, VARIED_FAMILIES } from './varied-worlds.ts';

/** The order must stay, because the seeds of runs depend on it. */
const FIXED_FAMILIES: readonly AgentFamily[] = [...FIRST_FAMILIES, ...REGULAR_FAMILIES];
const FAMILIES: readonly AgentFamily[] = [...FIXED_FAMILIES, ...VARIED_FAMILIES];
const MODEL = 'claude-sonnet-4-5';
const STEPS_MAX = 40;
/** Approximate characters per token. */
const TOKEN_CHARACTERS = 4;

/** One run: the client's side of an agent at work. */
class AgentRun {
  readonly id: string;
  readonly family: string;
  readonly is_shifted: boolean;
  readonly #family: AgentFamily;
  readonly #world: unknown;
  readonly #seed: number;
  readonly #system: string;
  readonly #messages: WireMessage[] = [];
  readonly #log: LoggedCall[] = [];
  #calls = 0;
  #final: string | null = null;
  #steps = 0;
  #isBroken = false;

  constructor(family: AgentFamily, seed: number, isShifted: boolean) {
    this.#family = family;
    this.#seed = seed;
    this.id = `${family.name}-${seed}`;
    this.family = family.name;
    this.is_shifted = isShifted;
    const random = createPrng(seed);
    this.#world = family.makeWorld(random, isShifted);
    this.#system = family.system(this.#world, random);
    this.#messages.push({ role: 'user', content: family.task(this.#world, random) });
  }

  /** Makes the agent's next request. @returns null when the agent has ended */
  nextRequest(): MessagesRequest | null {
    if (this.#final !== null || this.#isBroken || this.#steps >= STEPS_MAX) return null;
    return {
      model: MODEL,
      max_tokens: 4096,
      system: [{ type: 'text', text: this.#system }],
      tools: this.#family.tools,
      messages: structuredClone(this.#messages),
      metadata: { user_id: `user-${this.#seed}` },
    };
  }

  /** Returns the frontier model's answer to {@link nextRequest}. */
  askOracle(): MessagesAnswer {
    // The random choices at a step depend only on the seed and the number of the step.
    const random = createPrng(this.#seed * 1009 + this.#steps + 1);
    const act = this.#family.act(this.#world, this.#log, random);
    const content: WireBlock[] = [];
    if ('final' in act) content.push({ type: 'text', text: act.final });
    else {
      if (act.say !== undefined) content.push({ type: 'text', text: act.say });
      for (const { name, input } of act.calls)
        content.push({ type: 'tool_use', id: makeId('toolu_01', random), name, input });
    }
    const read = JSON.stringify([this.#system, this.#family.tools, this.#messages]).length;
    return {
      id: makeId('msg_01', random),
      type: 'message',
      role: 'assistant',
      model: MODEL,
      content,
      stop_reason: 'final' in act ? 'end_turn' : 'tool_use',
      stop_sequence: null,
      usage: {
        input_tokens: Math.ceil(read / TOKEN_CHARACTERS),
        output_tokens: Math.ceil(JSON.stringify(content).length / TOKEN_CHARACTERS),
        cache_read_input_tokens: 0,
        cache_creation_input_tokens: 0,
      },
    };
  }

  /** Continues the run with an answer: the client runs the tools that the answer calls. */
  takeAnswer(answer: { content: readonly WireBlock[]; stop_reason: string }): void {
    this.#steps++;
    this.#messages.push({ role: 'assistant', content: structuredClone(answer.content) as WireBlock[] });
    const results: ToolResult[] = [];
    let text = '';
    for (const block of answer.content) {
      if (block.type === 'text') text += block.text;
      if (block.type !== 'tool_use') continue;
      this.#calls++;
      const known = this.#family.tools.some(({ name }) => name === block.name);
      const result = known
        ? this.#family.call(this.#world, block.name, block.input)
        : { text: `No tool named ${block.name}`, is_error: true };
      this.#log.push({
        name: block.name,
        input: block.input,
        text: result.text,
        json: parse(result.text),
        is_error: result.is_error === true,
      });
      results.push({
        type: 'tool_result',
        tool_use_id: block.id,
        content: result.text,
        ...(result.is_error === true ? { is_error: true } : {}),
      });
    }
    if (answer.stop_reason === 'tool_use' && results.length > 0)
      this.#messages.push({ role: 'user', content: results });
    else if (answer.stop_reason === 'end_turn') this.#final = text;
    else this.#isBroken = true;
  }

  /** Whether an answer to {@link nextRequest} is right, in any wording. Only for varied families. */
  isRight(content: readonly WireBlock[]): boolean {
    return isRightAnswer(this.family, this.#world, this.#log, content);
  }

  isSuccess(): boolean {
    return this.#final !== null && this.#family.isDone(this.#world, this.#log, this.#final);
  }

  get calls(): number {
    return this.#calls;
  }
}

function parse(text: string): Fields | null {
  try {
    return JSON.parse(text) as Fields;
  } catch {
    return null;
  }
}

const ID_ALPHABET = 'ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789';

function makeId(prefix: string, random: Prng): string {
  let id = prefix;
  for (let i = 0; i < 20; i++) id += ID_ALPHABET[random.below(ID_ALPHABET.length)];
  return id;
}

/** Names of the families whose answers are compared with the frontier model's. */
export const FAMILY_NAMES: readonly string[] = FIXED_FAMILIES.map(({ name }) => name);
/** Names of the families whose answers are judged by their effect (varied-family.ts). */
export const VARIED_NAMES: readonly string[] = VARIED_FAMILIES.map(({ name }) => name);

/** Whether a change applies to the family. */
export function canChange(family: string, change: AgentChange): boolean {
  const found = FAMILIES.find(({ name }) => name === family);
  return found !== undefined && change(found) !== null;
}

/** Starts a run of a family of agents. @param seed of the run; runs of other families with the same seed are unrelated */
export function startRun(
  family: string,
  seed: number,
  isShifted = false,
  change: AgentChange | null = null,
): AgentRun {
  const found = FAMILIES.findIndex(({ name }) => name === family);
  if (found < 0) throw new Error(`no family ${family}: ${FAMILY_NAMES.join(', ')}`);
  const changed = change === null ? FAMILIES[found]! : change(FAMILIES[found]!);
  if (changed === null) throw new Error(`family ${family} has nothing that this change applies to`);
  return new AgentRun(changed, seed * 16 + found, isShifted);
}
