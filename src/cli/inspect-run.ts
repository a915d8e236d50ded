/**
 * `understudy inspect --run`: a run as a conversation, or the same as JSON. Main thread of the command
 * line.
 */

import type { AnswerComparison } from '../analysis/answer-comparison.ts';
import { listChildRuns } from '../analysis/child-runs.ts';
import { type RunStep, type RunSummary, readRun, summarizeRun } from '../analysis/inspect.ts';
import { explainStep } from '../analysis/step-explanation.ts';
import type { GoldenCode } from '../domain/golden.ts';
import type { Part, Role } from '../providers/turn.ts';
import { countOf } from '../std/count-of.ts';
import {
  type FindOutcomes,
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

/** Characters and lines of a text that are shown of it without --full. */
const SHOWN_CHARS = 1200;
const SHOWN_LINES = 16;

/** Characters of a system prompt that are shown without --full. */
const SHOWN_SYSTEM_CHARS = 300;

/** Arguments of a call up to this many characters stand on one line; longer ones have a line each. */
const INLINE_ARGUMENT_CHARS = 100;

/** What helps the next run against each reason. */
const ADVICE: Record<GoldenCode, string> = {
  no_turn: 'only runs in which a model answers can be golden',
  aborted: 'let the agent read its answers to the end, or run the task again',
  truncated: 'raise GW_MAX_CAPTURE_BYTES',
  undecodable: 'understudy inspect --exchange N says what could not be read',
  seq_gap:
    'see writer.dropped in GET /__gw/stats: raise GW_MAX_QUEUE if it is not 0; and send every call of a run through the gateway',
  seq_missing: 'stamp x-svc-seq on every call of the run, or on none',
  seq_repeated: 'give each agent, and each start of it, an x-svc-run of its own',
  unlinked: 'stamp x-svc-run and x-svc-seq: then a client may rewrite its history as it likes',
  failed_call: 'have the client try failed calls again',
  unfinished: 'let the agent go on until the model ends its turn of itself',
  shape: 'turns of Messages, chat-completions and responses count',
  side_call: 'its parent run has the work',
  outcome: 'distil from runs that succeeded',
};

/**
 * Shows one run, step by step.
 * @returns the exit status: 1 when there is no such run
 */
export async function showRun(view: InspectView, runId: string, findOutcomes: FindOutcomes): Promise<number> {
  const outcomes = await findOutcomes({ find: (id) => (id === runId ? id : undefined) });
  const summary = summarizeRun(view.source, runId, outcomes.get(runId) ?? null);
  if (summary === null) {
    view.io.err(
      `understudy: the database has no run ${formatJson(runId, 0)}.\nWhich runs it has: understudy inspect\n`,
    );
    return EXIT.failed;
  }
  if (view.flags.json) return writeRunJson(view, summary, runId);
  await view.io.out(layOutSummary(view, summary));
  for (const step of readRun(view.source, runId)) await view.io.out(layOutStep(view, step, summary));
  return EXIT.done;
}

async function writeRunJson(view: InspectView, summary: RunSummary, runId: string): Promise<number> {
  await view.io.out(`{"run": ${formatJson(summary, 0)}, "steps": [`);
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
  for (const { code, words } of run.reasons) {
    fields.push(['', `- ${makeHarmlessLine(words)}`], ['', dim(`  ${ADVICE[code]}`)]);
  }
  const byStudent = run.student_turns === 0 ? '' : `, ${run.student_turns} served by the student`;
  const took = formatMs(Date.parse(run.finished_at) - Date.parse(run.started_at));
  fields.push(
    [
      'turns',
      `${run.turns} in ${countOf(run.exchanges, 'exchange')}, ${countOf(run.errors, 'failed call')}, ${run.aborted} aborted${byStudent}`,
    ],
    ['model', `${nameAll(run.models)} (${nameAll(run.providers)})`],
    ['time', `${run.started_at} to ${run.finished_at} (${took})`],
    ['tokens', formatUsage(run)],
  );
  if (run.first_seq !== null) fields.push(['seq', `${run.first_seq} to ${run.last_seq}`]);
  if (run.notes.length > 0) fields.push(['note', nameAll(run.notes)]);
  if (run.outcome !== null) fields.push(['outcome', makeHarmlessLine(run.outcome)]);
  return fields.map(([name, value]) => layOutField(view, name, value)).join('');
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
    text += layOutPart(view, '', dim(`goes on from #${step.follows}${of}`));
  } else if (step.link === 'breaks')
    text += layOutPart(view, '', bad('not the continuation of the turn before'));
  if (turn === null) return text;
  const system = step.new_system?.join('\n\n') ?? '';
  if (system !== '') text += layOutPart(view, 'system', shorten(view, system, SHOWN_SYSTEM_CHARS));
  for (const message of step.new_messages) text += layOutParts(view, message.role, message.parts);
  text += layOutParts(view, 'assistant', turn.answer.parts);
  if (turn.answer.error !== null) text += layOutPart(view, 'error', bad(makeHarmless(turn.answer.error)));
  if (turn.problem !== '') text += layOutPart(view, 'unread', bad(makeHarmless(turn.problem)));
  if (record.stop_reason !== null)
    text += layOutPart(view, 'stop', dim(makeHarmlessLine(record.stop_reason)));
  return text + layOutRelegation(view, step);
}

/** What relegation decided, and where the student would have said something else than the upstream, both. */
function layOutRelegation(view: InspectView, step: RunStep): string {
  const decision = step.record.relegation?.decision;
  if (decision === undefined || decision === 'served') return '';
  const comparison = compareStep(view, step);
  const text = layOutPart(view, 'student', view.paint.dim(makeHarmlessLine(decision)));
  return comparison === null ? text : text + layOutComparison(view, comparison);
}

/** @returns null where the student's answer, or the upstream's, is not known */
function compareStep(view: InspectView, { record }: RunStep): AnswerComparison | null {
  if (record.relegation?.answer == null) return null;
  return explainStep(view.source, record.id, null)?.comparison ?? null;
}

function layOutParts(view: InspectView, role: Role, parts: Part[]): string {
  const { dim, call, bad } = view.paint;
  let text = '';
  for (const part of parts) {
    switch (part.type) {
      case 'text':
        text += layOutPart(view, role, shorten(view, part.text));
        break;
      case 'thinking':
        if (part.text !== '') text += layOutPart(view, 'thinking', dim(shorten(view, part.text)));
        break;
      case 'tool_call':
        text += layOutPart(
          view,
          'call',
          `${call(makeHarmlessLine(part.name))} ${layOutArguments(view, part.arguments)}${dim(formatId(part.id))}`,
        );
        break;
      case 'tool_result': {
        const content = part.parts.map((inner) => describeInline(inner)).join('\n');
        const shown = shorten(view, content);
        text += layOutPart(
          view,
          'result',
          `${part.is_error ? bad(shown) : shown}${dim(formatId(part.call_id))}`,
        );
        break;
      }
      default:
        text += layOutPart(view, role, dim(shorten(view, describeInline(part))));
    }
  }
  return text;
}

/** Short arguments as JSON; of longer ones each on a line, texts as they are. */
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

/** A part in plain words, where it does not get a block of its own. */
function describeInline(part: Part): string {
  switch (part.type) {
    case 'text':
    case 'thinking':
      return part.text;
    case 'media':
      return `[${part.media_type}, ${countOf(part.data.length, 'character')}]`;
    case 'tool_call':
      return `${part.name} ${compactJson(part.arguments)}`;
    case 'tool_result':
      return part.parts.map((inner) => describeInline(inner)).join('\n');
    case 'other':
      return `[${part.name}] ${compactJson(part.value)}`;
  }
}

function compactJson(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
}

function formatId(id: string | null): string {
  return id === null ? '' : ` [${makeHarmlessLine(id)}]`;
}
