/**
 * The tools that find and read runs. An operator's credential reads captured and reported runs; any other
 * credential reads the reported runs of its organization. Any thread.
 *
 * Bound: each text is cut. A result has as many texts of a run as fit into RESULT_CHARACTERS, and at least one; the
 * cursor continues after them.
 */
import type { CallToolResult } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { CAPTURES } from '../contract/captures.ts';
import type { Endpoint } from '../contract/endpoint.ts';
import { RUN_RECORDS } from '../contract/run-records.ts';
import type { RunMarks } from '../domain/run-mark.ts';
import { RUN_QUERY_BOUNDS } from '../domain/run-query/run-query.ts';
import { ID_CHARACTERS } from '../limits.ts';
import { type ApiAnswer, answer, type CallApi, type Tool } from './tool-answer.ts';

/** Maximum and usual number of runs of one result. */
const RUNS = { most: 50, usual: 10 } as const;
/** Maximum number of turns or steps per request. */
const PAGE_TURNS = 50;
const RESULT_CHARACTERS = 24_000;
const TEXT_CHARACTERS = 800;
const TASK_CHARACTERS = 200;
const NAMED_TOOLS = 16;

const foundRun = z.object({
  run_id: z.string(),
  status: z.string().describe('failed, error, running, ok or unknown'),
  why: z.string().describe('Why the run has this status'),
  agent: z.string(),
  models: z.array(z.string()),
  task: z.string().describe('First words'),
  started_at: z.string(),
  duration_ms: z.number(),
  tokens: z.number().nullable(),
  cost_usd: z.number().nullable().describe('null: not known'),
  errors: z.number().nullable().describe('Failed calls and tools; null: not known'),
  tools: z.array(z.string()).describe('Tools that were called'),
  outcome: z.string(),
  mark: z.string().nullable().describe('How a person marked the run: good or bad'),
  tags: z.array(z.string()),
  note: z.string().describe('Note of a person; empty without a note'),
  feedback_score: z.number().nullable(),
});

const cursor = z.string().nullable().describe('Pass it to get the next page; null: this is the last page');

export function searchRuns(call: CallApi): Tool {
  const input = z.object({
    query: z
      .string()
      .max(RUN_QUERY_BOUNDS.characters)
      .describe(
        'Words such as status:failed tool:run_tests cost:>0.5 model:opus "date parser" since:7d sort:cost; empty for the newest runs',
      ),
    limit: z.int().min(1).max(RUNS.most).default(RUNS.usual).describe('Maximum number of runs'),
    cursor: z.string().optional().describe('`next_cursor` of an earlier result'),
  });
  const output = z.object({
    source: z.enum(['captured', 'reported']).describe('What was searched'),
    matched: z.int().describe('Total number of matching runs'),
    is_whole: z.boolean().describe('false: some runs were not examined; ask again'),
    runs: z.array(foundRun),
    next_cursor: cursor,
  });
  return {
    name: 'search_runs',
    title: 'Search runs',
    description:
      'Finds runs of agents by a query: which failed, which called a tool, what cost most, where a text occurs. If the query is ' +
      'wrong, the answer names the wrong word, and a similar known word if possible. Use this tool to look up how earlier runs went.',
    annotations: { readOnlyHint: true, openWorldHint: false },
    inputSchema: input,
    outputSchema: output,
    run: ({ query, limit, cursor: place }: z.output<typeof input>) =>
      answer(output, async () => {
        const asked = { q: query, limit, ...(place === undefined ? {} : { cursor: place }) };
        const captured = await call(CAPTURES.listCapturedRuns, {}, asked);
        if (!hasNoCaptures(captured)) return change(captured, tellCapturedPage);
        const q = query.trim() === '' ? 'sort:started' : query;
        return change(await call(RUN_RECORDS.listRuns, {}, { ...asked, q }), tellReportedPage);
      }),
  };
}

export function readRun(call: CallApi): Tool {
  const input = z.object({
    run_id: z.string().min(1).max(ID_CHARACTERS).describe('The id that search_runs gives'),
    cursor: z.string().optional().describe('`next_cursor` of an earlier result'),
  });
  const output = z.object({
    run: foundRun,
    parts: z.array(z.string()).describe('What was said and done, in order; long texts are cut'),
    next_cursor: cursor,
  });
  return {
    name: 'read_run',
    title: 'Read a run',
    description:
      'Reads one run: what the agent was told, said and called, with results and errors, cut to what matters. Call it after ' +
      'search_runs. A long run comes in pages.',
    annotations: { readOnlyHint: true, openWorldHint: false },
    inputSchema: input,
    outputSchema: output,
    run: ({ run_id: id, cursor: place }: z.output<typeof input>): Promise<CallToolResult> =>
      answer(output, async () => {
        const asked = { limit: PAGE_TURNS, ...(place === undefined ? {} : { cursor: place }) };
        const captured = await call(CAPTURES.readCapturedRun, { id }, asked);
        if (captured.status === 200) return change(captured, tellConversation);
        if (!hasNoCaptures(captured)) return captured;
        const [run, steps] = await Promise.all([
          call(RUN_RECORDS.readRun, { id }, {}),
          call(RUN_RECORDS.listRunSteps, { id }, asked),
        ]);
        if (run.status !== 200) return run;
        return change(steps, (page: StepPage) => ({
          run: tellReported(run.body as ReportedRun),
          ...cutParts(page.steps.map(tellStep), page.next_cursor, (at) => writePlace(page.steps[at]!)),
        }));
      }),
  };
}

/** Whether the captures cannot answer: the caller is not an operator, no captures can be read, or they lack the run. */
function hasNoCaptures({ status }: ApiAnswer): boolean {
  return status === 404 || status === 503;
}

type BodyOf<E extends Endpoint> = E['replies'] extends { 200: { schema: infer Schema extends z.ZodType } }
  ? z.output<Schema>
  : never;
type CapturedPage = BodyOf<typeof CAPTURES.listCapturedRuns>;
type Conversation = BodyOf<typeof CAPTURES.readCapturedRun>;
type ReportedPage = BodyOf<typeof RUN_RECORDS.listRuns>;
type ReportedRun = BodyOf<typeof RUN_RECORDS.readRun>;
type StepPage = BodyOf<typeof RUN_RECORDS.listRunSteps>;
type FoundRun = z.input<typeof foundRun>;

function change<Body>(got: ApiAnswer, tell: (body: Body) => unknown): ApiAnswer {
  return got.status === 200 ? { ...got, body: tell(got.body as Body) } : got;
}

function tellCapturedPage(page: CapturedPage) {
  const { matched_runs, unread_runs, scanned_runs, listed_runs, being_read, being_indexed, next_cursor } =
    page;
  const isRead = unread_runs === 0 && being_read === null && being_indexed === null;
  const is_whole = isRead && scanned_runs >= listed_runs;
  const runs = page.runs.map(tellCaptured);
  return { source: 'captured', matched: matched_runs, is_whole, runs, next_cursor };
}

function tellReportedPage({ runs, matched_runs, is_whole, next_cursor }: ReportedPage) {
  const matched = matched_runs ?? runs.length;
  return { source: 'reported', matched, is_whole, runs: runs.map(tellReported), next_cursor };
}

function tellCaptured(run: CapturedPage['runs'][number]): FoundRun {
  const { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reported } = run;
  const counts = [input_tokens, output_tokens, cache_read_tokens, cache_write_tokens];
  const captured = counts.every((count) => count === null)
    ? null
    : counts.reduce<number>((sum, count) => sum + (count ?? 0), 0);
  return {
    run_id: run.run_id,
    status: run.status,
    why: run.status_words,
    agent: run.agent,
    models: run.models,
    task: cut(run.task ?? '', TASK_CHARACTERS),
    started_at: run.started_at,
    duration_ms: run.duration_ms,
    tokens: captured ?? reported?.tokens ?? null,
    cost_usd: run.cost_usd,
    errors: run.is_captured ? run.errors : null,
    tools: run.tools.slice(0, NAMED_TOOLS),
    outcome: run.outcome ?? '',
    ...tellMarks(run),
  };
}

function tellReported(run: ReportedRun): FoundRun {
  return {
    run_id: run.run_id,
    status: run.state,
    why: run.state_words,
    agent: run.agent_name,
    models: run.model === '' ? [] : [run.model],
    task: cut(run.task, TASK_CHARACTERS),
    started_at: run.started_at,
    duration_ms: run.duration_ms,
    tokens: run.tokens,
    cost_usd: null,
    errors: null,
    tools: [],
    outcome: run.outcome,
    ...tellMarks(run),
  };
}

function tellMarks({ mark, tags, note, feedback_score }: Pick<ReportedRun, keyof RunMarks>) {
  return { mark, tags, note: cut(note), feedback_score };
}

function tellConversation({ run, turns, next_cursor }: Conversation) {
  const parts = turns.map(tellTurn);
  return {
    run: tellCaptured(run),
    ...cutParts(parts, next_cursor, (at) => String(turns[at]!.exchange_id)),
  };
}

/**
 * Returns the first parts, as many as fit into a result but at least one, and the cursor after them.
 * @param next the cursor after all parts; null: no part follows
 * @param placeOf returns the cursor after a part
 */
function cutParts(
  parts: readonly string[],
  next: string | null,
  placeOf: (at: number) => string,
): { parts: string[]; next_cursor: string | null } {
  let left = RESULT_CHARACTERS;
  let count = 0;
  for (const part of parts) {
    left -= part.length;
    if (left < 0 && count > 0) break;
    count += 1;
  }
  return { parts: parts.slice(0, count), next_cursor: count < parts.length ? placeOf(count - 1) : next };
}

/** The position of a step, in the form of the API's cursor of steps. */
function writePlace({ step_index }: StepPage['steps'][number]): string {
  return Buffer.from(JSON.stringify([step_index])).toString('base64url');
}

function tellTurn(turn: Conversation['turns'][number]): string {
  const { exchange_id, status, model, started_at, latency_ms, end_words, error, problem } = turn;
  const lines = [
    `exchange ${exchange_id}: ${model ?? ''} ${started_at}, ${Math.round(latency_ms)} ms, HTTP ${status}`,
  ];
  for (const { role, content } of turn.messages_added)
    lines.push(...content.map((block) => `${role}: ${tellBlock(block)}`));
  lines.push(...turn.content.map((block) => `answer: ${tellBlock(block)}`));
  for (const words of [end_words, error ?? '', problem]) if (words !== '') lines.push(`! ${cut(words)}`);
  return cut(lines.join('\n'), RESULT_CHARACTERS);
}

/** Writes a block of a message as text. The contract leaves the form of blocks open, so an unknown block becomes JSON. */
function tellBlock(block: Record<string, unknown> & { type: string }): string {
  const { type, text, name, input, content, is_error } = block;
  if (typeof text === 'string') return type === 'text' ? cut(text) : `(${type}) ${cut(text)}`;
  if (type === 'tool_call') return `calls ${name} ${cut(JSON.stringify(input ?? null))}`;
  if (type === 'tool_result' && Array.isArray(content)) {
    const texts = content.map((part) => tellBlock(part as Parameters<typeof tellBlock>[0]));
    return `${is_error === true ? 'error' : 'result'} ${cut(texts.join('\n'))}`;
  }
  return cut(JSON.stringify(block));
}

function tellStep(step: StepPage['steps'][number]): string {
  const { step_index, action, action_input, thought, observation, is_error, fired } = step;
  const lines = [`step ${step_index}: ${action} ${cut(action_input ?? '')}`];
  if (thought !== '') lines.push(`thought: ${cut(thought)}`);
  if (observation) lines.push(`${is_error ? 'error' : 'result'}: ${cut(observation)}`);
  if (fired.length > 0) lines.push(`! monitors fired: ${fired.join(', ')}`);
  return lines.join('\n');
}

function cut(text: string, most: number = TEXT_CHARACTERS): string {
  return text.length <= most ? text : `${text.slice(0, most).toWellFormed()}… (${text.length} characters)`;
}
