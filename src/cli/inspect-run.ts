/** `understudy inspect --run`: a run as a conversation, or the same as JSON. Main thread of the command line. */

import { listChildRuns } from '../captures/child-runs.ts';
import { priceExchange } from '../captures/exchange-cost.ts';
import { type RunStep, type RunSummary, readRun, summarizeRun } from '../captures/inspect.ts';
import type { CapturedRunRow } from '../domain/captured-run.ts';
import type { GoldenCode } from '../domain/golden.ts';
import type { TurnBlock, TurnRole } from '../domain/turn.ts';
import { countOf } from '../std/count-of.ts';
import type { AnswerComparison } from '../teaching/answer-comparison.ts';
import { explainStep } from '../teaching/step-explanation.ts';
import {
  type FindWords,
  formatDollars,
  formatMs,
  formatUsage,
  type InspectView,
  layOutHead,
  layOutPart,
  nameAll,
  nameKind,
} from './inspect-view.ts';
import { EXIT } from './io.ts';
import { layOutComparison } from './step-page.ts';
import { formatJson, makeHarmless, makeHarmlessLine, wrapText } from './terminal-text.ts';

/** Maximum numbers of characters and of lines of a text that are shown without --full. */
const SHOWN_CHARS = 1200;
const SHOWN_LINES = 16;

/** Maximum number of characters of a system prompt that are shown without --full. */
const SHOWN_SYSTEM_CHARS = 300;

/** Maximum length of a call's arguments on one line. Longer arguments have a line each. */
const INLINE_ARGUMENT_CHARS = 100;

/** How to avoid each reason in the next run. */
const ADVICE: Record<GoldenCode, string> = {
  no_turn: 'only runs in which a model answers can be golden',
  aborted: 'let the agent read its answers to the end, or run the task again',
  truncated: 'raise GW_MAX_CAPTURE_BYTES',
  undecodable: 'understudy inspect --exchange N says what could not be read',
  not_indexed: 'run this command again when the index has caught up',
  seq_gap:
    'send every call of a run through the gateway; if writer.dropped in GET /__gw/stats is not 0, raise GW_MAX_QUEUE',
  seq_missing: 'stamp x-svc-seq on every call of the run, or on none',
  seq_repeated: 'give each agent, and each start of it, a separate x-svc-run',
  unlinked: 'stamp x-svc-run and x-svc-seq: then a client may rewrite its history',
  failed_call: 'have the client try failed calls again',
  unfinished: 'let the agent continue until the model ends its turn by itself',
  shape: 'only turns of Messages, chat-completions and responses count',
  side_call: 'look at its parent run, which did the work',
  monitor_fired: 'understudy runs mark RUN good, if the run went well anyway',
  reading_differs: 'please report it: one side of the difference is a misreading',
  outcome: 'teach from runs that succeeded',
  marked_bad: 'understudy runs mark RUN clear removes the mark',
};

/**
 * Shows one run, step by step.
 * @returns the exit status: 1 for an unknown run
 */
export async function showRun(view: InspectView, runId: string, findWords: FindWords): Promise<number> {
  const words = await findWords({ find: (id) => (id === runId ? id : undefined) });
  const summary = summarizeRun(view.source, runId, words.get(runId));
  if (summary === null) {
    view.io.err(
      `understudy: the database has no run ${formatJson(runId, 0)}.\nTo list its runs: understudy inspect\n`,
    );
    return EXIT.failed;
  }
  if (view.flags.json) return writeRunJson(view, summary, runId);
  await view.io.out(layOutSummary(view, summary));
  for (const step of readRun(view.source, runId)) await view.io.out(layOutStep(view, step, summary));
  return EXIT.done;
}

async function writeRunJson(view: InspectView, summary: RunSummary, runId: string): Promise<number> {
  await view.io.out(`{"run": ${formatJson({ ...summary, ...sumCosts(view, summary) }, 0)}, "steps": [`);
  let separator = '\n';
  for (const step of readRun(view.source, runId)) {
    const { record, turn, link, conversation, follows, new_messages, new_system } = step;
    const shown = {
      exchange: record,
      link,
      conversation,
      follows,
      system: new_system,
      new_messages,
      answer: turn?.answer ?? null,
      problem: turn?.problem ?? '',
      ...(record.relegation === undefined ? {} : { comparison: compareStep(view, step) }),
    };
    await view.io.out(`${separator}${formatJson(shown, 0)}`);
    separator = ',\n';
  }
  await view.io.out('\n]}\n');
  return EXIT.done;
}

function layOutSummary(view: InspectView, run: RunSummary): string {
  const { strong, good, bad, dim } = view.paint;
  const fields: [name: string, value: string][] = [
    ['run', strong(makeHarmlessLine(run.run_id ?? ''))],
    ['golden', run.golden ? good('yes') : bad('no')],
  ];
  if (run.session_id !== null && run.session_id !== run.run_id)
    fields.push(['session', makeHarmlessLine(run.session_id)]);
  if (run.parent_run_id !== null)
    fields.push(['part of', `${makeHarmlessLine(run.parent_run_id)} (${nameKind(run.kind)})`]);
  if (run.session_id !== null) {
    for (const child of listChildRuns(view.source, run.run_id ?? ''))
      fields.push(['child', `${makeHarmlessLine(child.run_id)} (${nameKind(child.kind)})`]);
  }
  for (const { code, words, difference } of run.reasons) {
    fields.push(['', `- ${makeHarmlessLine(words)}`]);
    if (difference !== undefined) {
      fields.push(['', `  read:     ${makeHarmlessLine(difference.read)}`]);
      fields.push(['', `  repeated: ${makeHarmlessLine(difference.repeated)}`]);
    }
    fields.push(['', dim(`  ${ADVICE[code]}`)]);
  }
  const byStudent = run.student_turns === 0 ? '' : `, ${run.student_turns} served by the student`;
  const took = formatMs(Date.parse(run.finished_at) - Date.parse(run.started_at));
  fields.push(
    [
      'turns',
      `${run.turns} in ${countOf(run.exchanges, 'exchange')}, ${countOf(run.errors, 'error')}, ${run.aborted} aborted${byStudent}`,
    ],
    ['model', `${nameAll(run.models)} (${nameAll(run.providers)})`],
    ['time', `${run.started_at} to ${run.finished_at} (${took})`],
    ['tokens', formatUsage(run)],
  );
  const cost = sumCosts(view, run);
  if (cost.cost_usd !== null) fields.push(['cost', describeCost(cost, cost.cost_usd)]);
  if (run.first_seq !== null) fields.push(['seq', `${run.first_seq} to ${run.last_seq}`]);
  if (run.notes.length > 0) fields.push(['note', nameAll(run.notes)]);
  if (run.outcome !== null) fields.push(['outcome', makeHarmlessLine(run.outcome)]);
  if (run.mark !== null) fields.push(['mark', run.mark]);
  for (const { words } of run.overruled) fields.push(['', dim(`- overrules: ${makeHarmlessLine(words)}`)]);
  return fields.map(([name, value]) => layOutField(view, name, value)).join('');
}

/** The fields of a run's cost, as `/capture` has them. */
type RunCost = Pick<CapturedRunRow, 'cost_usd' | 'unpriced_turns' | 'estimated_turns'>;

function sumCosts(view: InspectView, { run_id }: RunSummary): RunCost {
  const cost: RunCost = { cost_usd: null, unpriced_turns: 0, estimated_turns: 0 };
  for (const record of view.source.summaries({ run_id: run_id ?? '' })) {
    const { usd, basis, is_unknown } = priceExchange(record, view.prices);
    if (is_unknown) cost.unpriced_turns += 1;
    if (usd !== null) cost.cost_usd = (cost.cost_usd ?? 0) + usd;
    if (basis !== null && basis !== 'told') cost.estimated_turns += 1;
  }
  return cost;
}

function describeCost({ unpriced_turns, estimated_turns }: RunCost, usd: number): string {
  const parts = [`${estimated_turns === 0 ? '' : '~'}${formatDollars(usd)}`];
  if (estimated_turns > 0) parts.push(`${countOf(estimated_turns, 'turn')} estimated`);
  if (unpriced_turns > 0)
    parts.push(`${countOf(unpriced_turns, 'turn')} not counted: no price or no tokens known`);
  return parts.join(', ');
}

/** `name     value`, wrapped under the value. */
function layOutField(view: InspectView, name: string, value: string): string {
  const lines = wrapText(value, view.width - 9);
  return `${view.paint.dim(name.padEnd(9))}${lines.join(`\n${' '.repeat(9)}`)}\n`;
}

function layOutStep(view: InspectView, step: RunStep, run: RunSummary): string {
  const { record, turn } = step;
  const { bad, dim, call } = view.paint;
  let text = '\n';
  for (const [from, to] of run.gaps) {
    if (record.seq === to + 1)
      text += `${bad(`-- seq ${from === to ? from : `${from} to ${to}`} missing --`)}\n`;
  }
  text += `${layOutHead(view, record, Date.parse(run.started_at))}\n`;
  if (step.conversation !== null && step.conversation > 1 && step.follows === null)
    text += layOutPart(
      view,
      '',
      call(`conversation ${step.conversation} begins: a sub-agent, or a side call`),
    );
  else if (step.link === 'repeats') text += layOutPart(view, '', dim('the same request as before'));
  else if (step.link === 'breaks' && step.follows_answer) {
    const of =
      step.conversation === null || step.conversation === 1 ? '' : `, conversation ${step.conversation}`;
    text += layOutPart(view, '', dim(`continues #${step.follows}${of}`));
  } else if (step.link === 'breaks') text += layOutPart(view, '', bad('does not continue the previous turn'));
  if (turn === null) return text;
  const system = step.new_system?.join('\n\n') ?? '';
  if (system !== '') text += layOutPart(view, 'system', shorten(view, system, SHOWN_SYSTEM_CHARS));
  for (const message of step.new_messages) text += layOutBlocks(view, message.role, message.content);
  text += layOutBlocks(view, 'assistant', turn.answer.content);
  if (turn.answer.error !== null) text += layOutPart(view, 'error', bad(makeHarmless(turn.answer.error)));
  if (turn.problem !== '') text += layOutPart(view, 'unread', bad(makeHarmless(turn.problem)));
  if (record.stop_reason !== null)
    text += layOutPart(view, 'stop', dim(makeHarmlessLine(record.stop_reason)));
  return text + layOutRelegation(view, step);
}

/**
 * Relegation's decision, and the comparison of the student's answer with the upstream's if both are known. '' without a
 * decision, and for a step that the student served.
 */
function layOutRelegation(view: InspectView, step: RunStep): string {
  const decision = step.record.relegation?.decision;
  if (decision === undefined || decision === 'served') return '';
  const comparison = compareStep(view, step);
  const text = layOutPart(view, 'student', view.paint.dim(makeHarmlessLine(decision)));
  return comparison === null ? text : text + layOutComparison(view, comparison);
}

/** Compares the student's answer with the upstream's; null when one of the two is unknown. */
function compareStep(view: InspectView, { record }: RunStep): AnswerComparison | null {
  if (record.relegation?.answer == null) return null;
  return explainStep(view.source, record.id, null)?.comparison ?? null;
}

function layOutBlocks(view: InspectView, role: TurnRole, blocks: readonly TurnBlock[]): string {
  const { dim, call, bad } = view.paint;
  let text = '';
  for (const block of blocks) {
    switch (block.type) {
      case 'text':
      case 'refusal':
        text += layOutPart(view, role, shorten(view, block.text));
        break;
      case 'thinking':
        if (block.text !== '') text += layOutPart(view, 'thinking', dim(shorten(view, block.text)));
        break;
      case 'cache_point':
        break;
      case 'tool_call':
        text += layOutPart(
          view,
          'call',
          `${call(makeHarmlessLine(block.name))} ${layOutArguments(view, block.input)}${dim(formatId(block.id))}`,
        );
        break;
      case 'tool_result': {
        const content = block.content.map((inner) => describeInline(inner)).join('\n');
        const shown = shorten(view, content);
        text += layOutPart(
          view,
          'result',
          `${block.is_error ? bad(shown) : shown}${dim(formatId(block.call_id))}`,
        );
        break;
      }
      default:
        text += layOutPart(view, role, dim(shorten(view, describeInline(block))));
    }
  }
  return text;
}

/** Short arguments as JSON on one line; longer arguments with a line each, and texts unchanged. */
function layOutArguments(view: InspectView, value: unknown): string {
  const compact = compactJson(value);
  if (compact.length <= INLINE_ARGUMENT_CHARS || typeof value !== 'object' || value === null)
    return shorten(view, compact);
  const lines = Object.entries(value).map(
    ([name, item]) =>
      `  ${view.paint.dim(`${makeHarmlessLine(name)}:`)} ${shorten(view, compactJson(item)).replaceAll('\n', '\n    ')}`,
  );
  return `\n${lines.join('\n')}\n `;
}

/** The beginning of a text, made harmless, and how much more there is. */
function shorten(view: InspectView, text: string, shownChars: number = SHOWN_CHARS): string {
  const trimmed = text.trim();
  if (view.flags.full) return makeHarmless(trimmed);
  let shown = trimmed.slice(0, shownChars);
  let at = -1;
  for (let lines = 0; lines < SHOWN_LINES; lines += 1) {
    at = shown.indexOf('\n', at + 1);
    if (at < 0) break;
  }
  if (at >= 0) shown = shown.slice(0, at);
  if (shown.length === trimmed.length) return makeHarmless(trimmed);
  const more = countOf(trimmed.length - shown.length, 'more character');
  return `${makeHarmless(shown)}… ${view.paint.dim(`(${more}: --full)`)}`;
}

/** A block in plain words, on one line with others. */
function describeInline(block: TurnBlock): string {
  switch (block.type) {
    case 'text':
    case 'refusal':
    case 'thinking':
      return block.text;
    case 'cache_point':
      return '';
    case 'media':
      return `[${block.media_type ?? block.kind}, ${countOf(block.data.length, 'character')}]`;
    case 'tool_call':
      return `${block.name} ${compactJson(block.input)}`;
    case 'tool_result':
      return block.content.map((inner) => describeInline(inner)).join('\n');
    case 'other':
      return `[${block.name}] ${compactJson(block.value)}`;
  }
}

function compactJson(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
}

/** The provider's id; an id that was assigned by position is not shown. */
function formatId(id: string | null): string {
  return id === null || id.startsWith('order:') ? '' : ` [${makeHarmlessLine(id)}]`;
}
