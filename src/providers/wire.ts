/**
 * A wire: a format in which clients ask model providers for a turn. Everything that depends on the format is in its
 * `Wire`; `wires.ts` lists them. A format that leaves out a part does not compile. Types, and functions that several
 * wires share; any thread.
 */

import type { SideKind } from '../domain/child-kind.ts';
import { type ApiShape, type RelegationWire, type TokenUsage, unknownUsage } from '../domain/exchange.ts';
import type { NormalRequest, TurnBlock, TurnStop } from '../domain/turn.ts';
import type { FrameSink } from './framing.ts';
import type { JsonObject } from './json-reading.ts';
import { emptyRequest, type NormalReading } from './normal-reading.ts';

/** A request: its normal form, and the fields that link turns. */
export interface WireRequest {
  normal: NormalRequest;
  /** Whether the provider keeps the answer, so that a later request may name it instead of containing it. */
  is_kept: boolean;
  /** The conversation in which the provider keeps the answer; null if absent. */
  kept_in: string | null;
  /** Whether the request is for an embedding, which is not a turn, although the path is the same. */
  embeds: boolean;
}

/** An answer. If there is no answer, all fields are null or empty. */
export interface WireAnswer {
  id: string | null;
  model: string | null;
  content: TurnBlock[];
  /** The provider's own stop word. */
  stop_word: string | null;
  /** Counts as the provider reported them. The wire's `usage` says what they include. */
  usage: TokenUsage;
  /** The provider's error in words, from an error answer or from within the answer, otherwise null. */
  error: string | null;
  /** Whether the answer is an embedding. */
  embeds: boolean;
  /** Whether the provider makes the answer in the background, and another call fetches it. */
  is_pending: boolean;
}

/** Assembles a whole or streamed answer. One object reads one answer, and must assume nothing about its JSON. */
export interface AnswerReader extends FrameSink {
  /** Returns the answer. It is called once, after all other calls. */
  finish(): WireAnswer;
}

/** Which requests of a route are turns in this format. */
interface WirePaths {
  /** `bedrock`: plain words, which count only under Bedrock's own route and under prefixes of GW_ROUTES. */
  routes: 'all' | 'bedrock';
  /**
   * `turn` if a POST to this path is a turn; `other` if it is not a turn, but is read for its model and usage;
   * otherwise null. Called on server threads for each request, so it allocates nothing and uses no regex.
   * @param path raw, without the route's prefix and without the query
   */
  tell(path: string): 'turn' | 'other' | null;
  /** Paths of turns, as clients send them. The labelling clients must know them, too (test/label). */
  examples: readonly string[];
}

/** The meaning of the counts in a wire's answers. */
interface WireUsage {
  /** Whether `input_tokens` includes tokens read from a cache or written to it. */
  includes_cache: boolean;
}

/**
 * How a wire's requests are cached. A field is a path of names with dots. The first field that a request has is read.
 */
export interface PromptLayout {
  /**
   * `marked`: the provider caches up to the request's cache points. `automatic`: it caches the whole prompt unasked.
   */
  caching: 'marked' | 'automatic';
  tools: readonly string[];
  system: readonly string[];
  messages: readonly string[];
  /** The field of a message that holds its parts. */
  blocks: 'content' | 'parts';
  /** Lists the tools that a message declares instead of saying something; null: it declares none. Absent: none does. */
  toolsIn?: (message: unknown) => readonly unknown[] | null;
  /** Settings that invalidate the cached messages when they change. */
  settings: readonly string[];
  /** A field by which the request continues a prompt that the provider keeps; null: the wire has none. */
  kept_by: string | null;
}

/** The parts of a wire that the student needs to answer its steps; src/student/serving writes the answers. */
interface ServedForm {
  /** How the path of a step ends, raw; on the default upstream it is the whole path. */
  step_path: string;
  /** Provider label of the format's maker. */
  maker: string;
  /** The header whose values distinguish agents. */
  beta_header: string;
}

/** A wire format with everything that depends on it. */
export interface Wire<S extends ApiShape = ApiShape> {
  readonly shape: S;
  readonly paths: WirePaths;
  /** Whether a request on an unknown path has this format. */
  asks(body: JsonObject): boolean;
  /** Whether an answer's first value has this format. */
  answers(first: JsonObject): boolean;
  readRequest(body: unknown, reading: NormalReading, path: string): WireRequest;
  /** Makes the reader of one answer. @param headers of the answer; flat [name, value, …] */
  startAnswer(reading: NormalReading, path: string, headers: readonly string[]): AnswerReader;
  /** The stop words, in lower case. Any other word is `other`. */
  readonly stops: Readonly<Record<string, TurnStop>>;
  readonly usage: WireUsage;
  /** How the provider caches the prompt. */
  readonly prompt: PromptLayout;
  /** Whether the ids of tool calls come from the provider. Otherwise clients make up their own. */
  readonly has_call_ids: boolean;
  /** Name of the operation in OpenTelemetry's GenAI conventions. */
  readonly span_operation: 'chat' | 'generate_content' | 'text_completion';
  /** Determines the kind of a coding agent's side call; null for a call of the work itself. */
  findSideCall(request: NormalRequest, offersTools: boolean): SideKind | null;
  /** Whether a run can be golden if its turns have this wire format. */
  readonly can_be_golden: boolean;
  /** What the student needs to answer steps of this wire; null: no student answers them. */
  readonly served: S extends RelegationWire ? ServedForm : null;
}

/** Makes the usual kind of request: no embedding, and the provider does not keep its answer. */
export function plainRequest(normal: NormalRequest): WireRequest {
  return { normal, is_kept: false, kept_in: null, embeds: false };
}

/** Makes the request of a body that cannot be read. */
export function unreadRequest(): WireRequest {
  return plainRequest(emptyRequest());
}

/** Makes an answer without any content yet. */
export function emptyAnswer(model: string | null = null): WireAnswer {
  return {
    id: null,
    model,
    content: [],
    stop_word: null,
    usage: unknownUsage(),
    error: null,
    embeds: false,
    is_pending: false,
  };
}

/**
 * Translates a provider's stop word into the common vocabulary. Some providers use the same word for answers with and
 * without tool calls (`STOP`, `completed`, and `stop` after a forced call). So a word that means `end_turn` becomes
 * `tool_use` if the answer has tool calls.
 * @returns `other` for an unknown word; null without a word
 */
export function normalizeStop(
  { stops }: Pick<Wire, 'stops'>,
  word: string | null,
  content: readonly TurnBlock[],
): TurnStop | null {
  if (word === null) return null;
  const known = word.toLowerCase();
  const stop = Object.hasOwn(stops, known) ? stops[known]! : 'other';
  return stop === 'end_turn' && content.some(({ type }) => type === 'tool_call') ? 'tool_use' : stop;
}

/** Whether the path ends with the versioned name, or is exactly the bare name. */
export function endsVersioned(path: string, versioned: string, bare: string): boolean {
  return path.endsWith(versioned) || path === bare;
}

/** Whether the path ends with `:verb` or `%3Averb`, after at least one character. */
export function endsWithVerb(path: string, verb: string): boolean {
  if (!path.endsWith(verb)) return false;
  const before = path.length - verb.length;
  if (path.charCodeAt(before - 1) === 0x3a) return before > 1;
  return before > 3 && (path.startsWith('%3A', before - 3) || path.startsWith('%3a', before - 3));
}
