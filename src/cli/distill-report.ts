/** The report of a round of `distill` or `loop`, in words for a person. Pure; main thread. */

import { join } from 'node:path';
import { describeKindRefusal } from '../domain/kind-refusal.ts';
import type { Tier } from '../domain/pattern.ts';
import { countOf } from '../std/count-of.ts';
import type { UncoveredReason } from '../student/model/decision.ts';
import type { StudentManifestDraft } from '../student/model/manifest.ts';
import { KIND_RUNS_MIN } from '../teaching/calibration.ts';
import type { RunFault } from '../teaching/golden-run.ts';
import type { UntaughtReason } from '../teaching/golden-steps.ts';
import { DISTILL_BODY_BYTES } from '../teaching/limits.ts';
import type { RoundJson } from '../teaching/round-json.ts';
import type { SilentChange } from '../teaching/silent-changes.ts';
import type { AnswerKindMeasure } from '../teaching/student-measures.ts';
import { type EndedAfter, percent } from '../teaching/taught-student.ts';
import type { ExportReport } from '../teaching/training-export.ts';
import type { LeftOut } from '../teaching/training-lines.ts';
import { layOutTable, makeHarmlessLine, type Palette } from './terminal-text.ts';

const NOT_GOLDEN: Record<RunFault, string> = {
  no_turn: 'no model turn',
  aborted: 'aborted',
  truncated: 'stored copy truncated',
  undecodable: 'body unreadable',
  not_indexed: 'not indexed yet',
  seq_gap: 'x-svc-seq has gaps',
  seq_missing: 'x-svc-seq partly missing',
  seq_repeated: 'x-svc-seq given twice',
  unlinked: 'conversation broken',
  failed_call: 'failed call not retried to success',
  unfinished: 'not ended',
  shape: 'other API',
  side_call: 'side calls of a client',
  monitor_fired: 'monitor fired near the end',
  reading_differs: 'answer and its repetition differ',
  outcome: 'monitor run not a success',
  marked_bad: 'marked bad by a person',
  too_large: `a body above ${DISTILL_BODY_BYTES / 1_048_576} MiB`,
};

const UNTAUGHT: Record<UntaughtReason, string> = {
  other_shape: 'in a wire format that GW_RELEGATION_WIRES does not name',
  served_by_student: 'a student answered',
  unreadable: 'unreadable',
  reading_differs: 'two readings of the answer differ',
  too_many: 'beyond the maximum of steps in a run',
};

const UNCOVERED: Record<UncoveredReason, string> = {
  unknown_agent: 'unknown agent',
  other_value: 'another value in the prompt than in all golden runs',
  unsupported: 'asks for something that no student can give',
  too_far: 'no golden step is near enough',
  disagreement: 'golden steps disagree',
  unproven: 'kinds of answers with too little evidence, or wrong too often',
  bad_request: 'the upstream may refuse the request',
  missing_value: 'a value is missing',
  invalid: 'the answer would be invalid',
};

const ENDED_AFTER: Record<EndedAfter, string> = {
  calibration:
    'after the calibration: no kind of answer may be served, so no student was fitted and measured, and all held-out steps count as not served',
  measurement: 'after the measurement: the student cannot be published, so it was not taught all runs',
};

/** Maximum number of kinds of answers with a line in the table. Kinds with errors are always listed. */
const KINDS_SHOWN = 12;

/** The report for a person: first what the student would serve, then the runs from which it was made. */
export function describeRound(round: RoundJson, tier: Tier, width: number, palette: Palette): string {
  const { patterns, student } = round;
  const facts: [string, string][] = student === null ? [] : describeServed(student);
  facts.push(['runs', describeRuns(round)], ['golden', number(round.golden)]);
  const notGolden = round.looked_at - round.golden;
  if (notGolden > 0)
    facts.push(['left out', `${number(notGolden)}: ${listCounts(round.not_golden, NOT_GOLDEN)}`]);
  const untaught = listCounts(round.untaught, UNTAUGHT);
  if (untaught !== '') facts.push(['not taught', `turns of golden runs: ${untaught}`]);
  facts.push(['patterns', describePatterns(patterns)]);
  if (student !== null) facts.push(...describeStudent(student, round));
  const left = facts.reduce((widest, [name]) => Math.max(widest, name.length), 0);
  let text = facts
    .map(([name, value]) => `${palette.dim(name.padEnd(left))}  ${makeHarmlessLine(value)}\n`)
    .join('');
  const agents = student?.coverage.agents ?? [];
  if (agents.length > 0) text += `\n${layOutAgents(agents, width, palette)}`;
  if (student?.student.kind === 'http' && agents.length > 0)
    text += `\n${layOutKinds(agents, width, palette)}`;
  if (student !== null && student.by_answer.length > 0)
    text += `\n${layOutAnswers(student.by_answer, width, palette)}`;
  text += `\n${describeOutcome(round, palette)}`;
  if (patterns.path !== null)
    text += `To import the patterns: understudy patterns import --tier ${tier} ${makeHarmlessLine(patterns.path)}\n`;
  return text;
}

function describeRuns({ runs, looked_at, passed_over, too_old }: RoundJson): string {
  if (looked_at === runs) return number(runs);
  const passed =
    passed_over === 0 ? '' : `, ${number(passed_over)} skipped because their agents have enough newer ones`;
  const before = too_old === 0 ? '' : `, ${number(too_old)} that began before --since`;
  const left = runs - looked_at - passed_over - too_old;
  const older = left === 0 ? '' : `, ${number(left)} older ones not read`;
  return `${number(runs)}: the newest ${number(looked_at)} read${passed}${before}${older}`;
}

function describePatterns({ count, found }: RoundJson['patterns']): string {
  if (count === 0) return 'none: no golden run failed and recovered';
  return found === count ? number(count) : `${number(count)}, merged from ${number(found)} similar ones`;
}

function describeServed({ measured }: NonNullable<RoundJson['student']>): [string, string][] {
  const facts: [string, string][] = [
    [
      'served',
      `${number(measured.served)} of ${countOf(measured.steps, 'step')} held out (${percent(measured.coverage)})`,
    ],
  ];
  if (measured.error !== null && measured.error_at_most !== null) {
    const bound = `at most ${percent(measured.error_at_most)} with 95 % confidence`;
    facts.push([
      'wrong',
      `${number(measured.errors)} of ${number(measured.served)} (${percent(measured.error)}; ${bound})`,
    ]);
    const { served, errors } = measured.in_a_row;
    facts.push([
      'in sticky runs',
      `${number(served)} before the first uncovered step of each run, ${number(errors)} wrong`,
    ]);
  }
  facts.push([
    'whole runs',
    `${number(measured.whole_runs)} of ${number(measured.held_out_runs)} served correctly to the end`,
  ]);
  if (measured.tokens_saved_share !== null)
    facts.push(['tokens', `${percent(measured.tokens_saved_share)} of the tokens of those runs saved`]);
  if (measured.service !== undefined) facts.push(...describeService(measured.service, measured.served));
  const uncovered = listCounts(measured.uncovered, UNCOVERED);
  if (uncovered !== '') facts.push(['not served', uncovered]);
  return facts;
}

/** Describes what asking a model cost, and the effect of requiring several answers to agree. */
function describeService(
  {
    asked,
    requests,
    failed,
    untold = {},
    disagreed,
    input_tokens,
    output_tokens,
    single,
  }: NonNullable<StudentManifestDraft['measured']['service']>,
  served: number,
): [string, string][] {
  const unfit = failed === 0 ? '' : `, ${number(failed)} failed or unfit`;
  const facts: [string, string][] = [
    [
      'asked',
      `${countOf(asked, 'step')} in ${countOf(requests, 'request')}${unfit}; ${number(input_tokens)} tokens in, ${number(output_tokens)} out`,
    ],
  ];
  const reasons = Object.entries(untold).map(([why, steps]) => `${countOf(steps, 'step')} with ${why}`);
  if (reasons.length > 0)
    facts.push(['not asked', `${reasons.join(', ')}: such a step cannot be translated for the model`]);
  if (single !== undefined)
    facts.push([
      'agreement',
      `answers to ${countOf(disagreed, 'step')} disagreed; the first answer alone would serve ${number(single.served)} with ${number(single.errors)} wrong, instead of ${number(served)}`,
    ]);
  return facts;
}

function describeStudent(
  student: NonNullable<RoundJson['student']>,
  { taught_runs, golden: found }: RoundJson,
): [string, string][] {
  const { measured, golden, coverage, threshold } = student;
  const of =
    taught_runs === found ? '' : `; of ${countOf(found, 'golden run')}, the newest of each agent that fit`;
  const facts: [string, string][] =
    student.ended_after === null ? [] : [['ended early', ENDED_AFTER[student.ended_after]]];
  facts.push(['taught', `${countOf(golden.teaching_runs, 'run')}, ${countOf(golden.steps, 'step')}${of}`]);
  for (const change of student.changes) facts.push(['answer ended', describeChange(change)]);
  if (measured.of !== undefined) {
    const { students, teaching_runs } = measured.of;
    const sources = students === 1 ? 'one' : `${students}, each`;
    facts.push([
      'measured',
      `${sources} taught ${students === 1 ? '' : 'some '}${countOf(teaching_runs, 'run')} of these, on others`,
    ]);
  }
  facts.push(
    ['held out', `${countOf(measured.held_out_runs, 'run')}, ${countOf(measured.steps, 'step')}`],
    ['threshold', threshold < 0 ? 'none' : `${Number(threshold.toFixed(4))} (${coverage.method})`],
    ['an error is', measured.error_definition],
  );
  return facts;
}

/** Describes an answer that the upstream stopped giving. */
function describeChange({ agent, stage, kind, ...change }: SilentChange): string {
  return (
    `${agent}: from exchange ${change.since_exchange_id} on, golden runs do not answer with ${kind} after ${stage}; ` +
    `${countOf(change.earlier_runs, 'earlier run')} with this answer are not used for teaching; ${countOf(change.later_runs, 'run')} came after the change`
  );
}

type Agent = NonNullable<StudentManifestDraft['coverage']['agents']>[number];

/** Lays out a table of all agents, with what each agent needs so that more of its steps are served. */
function layOutAgents(agents: readonly Agent[], width: number, palette: Palette): string {
  const rows = agents.map((agent) => [
    { text: makeHarmlessLine(agent.agent) },
    { text: number(agent.runs) },
    { text: number(agent.measured.steps) },
    { text: number(agent.measured.served) },
    { text: number(agent.measured.errors), ...(agent.measured.errors > 0 ? { paint: palette.bad } : {}) },
    { text: describeNeed(agent), ...(agent.threshold === null ? { paint: palette.bad } : {}) },
    {
      text: makeHarmlessLine(
        agent.tools.join(', ') + (agent.origin === undefined ? '' : ` (at ${agent.origin.trim()})`),
      ),
    },
  ]);
  return layOutTable(
    [
      { title: 'AGENT', align: 'left', min: 10 },
      { title: 'RUNS', align: 'right' },
      { title: 'STEPS', align: 'right' },
      { title: 'SERVED', align: 'right' },
      { title: 'WRONG', align: 'right' },
      { title: 'STATE', align: 'left' },
      { title: 'TOOLS', align: 'left', min: 8, dispensable: 1 },
    ],
    rows,
    width,
    palette,
  );
}

/** Why an agent is not served, or not served more. */
function describeNeed({ threshold, evidence, runs, kinds = [] }: Agent): string {
  const refused = kinds.filter((kind) => kind.refused !== null);
  if (threshold !== null)
    return refused.length === 0 ? 'served' : `served, but not ${describeRefused(refused)}`;
  if (refused.length > 0) return `not served: ${describeRefused(refused)}`;
  const missing = KIND_RUNS_MIN - runs;
  if (missing > 0)
    return `not served: would be served with ${missing} more golden ${missing === 1 ? 'run' : 'runs'} like these`;
  return evidence === 'failed'
    ? 'not served: wrong too often'
    : 'not served: no golden step is like another; would be served if golden runs repeated a task';
}

/** Maximum number of lines for a model's kinds of answers. Kinds with errors are always listed. */
const SERVICE_KINDS_SHOWN = 40;

/** What a model would serve for each agent, with its error rate. */
function layOutKinds(agents: readonly Agent[], width: number, palette: Palette): string {
  const all = agents.flatMap(({ agent, kinds = [] }) => kinds.map((kind) => ({ ...kind, agent })));
  const shown = all.filter(({ errors }, at) => at < SERVICE_KINDS_SHOWN || errors > 0);
  const described = shown.map((kind) => ({ ...kind, refusal: describeKindRefusal(kind) }));
  const rows = described.map(({ agent, kind, runs, steps, errors, error_at_most, refusal }) => [
    { text: makeHarmlessLine(agent) },
    { text: makeHarmlessLine(kind) },
    { text: number(runs) },
    { text: number(steps) },
    { text: number(errors), ...(errors > 0 ? { paint: palette.bad } : {}) },
    { text: percent(error_at_most) },
    {
      text: refusal === null ? 'served' : refusal.why,
      ...(refusal === null ? {} : { paint: palette.bad }),
    },
  ]);
  const table = layOutTable(
    [
      { title: 'AGENT', align: 'left', min: 10 },
      { title: "MODEL'S ANSWER", align: 'left', min: 12 },
      { title: 'RUNS', align: 'right' },
      { title: 'STEPS', align: 'right' },
      { title: 'WRONG', align: 'right' },
      { title: 'AT MOST', align: 'right' },
      { title: 'STATE', align: 'left' },
    ],
    rows,
    width,
    palette,
  );
  return table + tellRest(all.length - shown.length);
}

/** Maximum number of kinds of answers in an agent's table; those with errors come first. */
const REFUSED_SHOWN = 4;

function describeRefused(kinds: NonNullable<Agent['kinds']>): string {
  const sorted = kinds.toSorted(
    (a, b) => Number(b.refused === 'too_wrong') - Number(a.refused === 'too_wrong'),
  );
  const words = sorted.slice(0, REFUSED_SHOWN).map((kind) => {
    const refusal = describeKindRefusal(kind);
    return `${makeHarmlessLine(kind.kind)} (${refusal === null ? '' : `${refusal.why}; ${refusal.remedy}`})`;
  });
  const more = kinds.length - words.length;
  return words.join(', ') + (more > 0 ? ` and ${countOf(more, 'more kind')}` : '');
}

function layOutAnswers(kinds: readonly AnswerKindMeasure[], width: number, palette: Palette): string {
  const shown = kinds.filter(({ errors }, at) => at < KINDS_SHOWN || errors > 0);
  const rows = shown.map(({ kind, steps, served, errors }) => [
    { text: makeHarmlessLine(kind) },
    { text: number(steps) },
    { text: number(served) },
    { text: number(errors), ...(errors > 0 ? { paint: palette.bad } : {}) },
  ]);
  const table = layOutTable(
    [
      { title: 'GOLDEN ANSWER', align: 'left', min: 12 },
      { title: 'STEPS', align: 'right' },
      { title: 'SERVED', align: 'right' },
      { title: 'WRONG', align: 'right' },
    ],
    rows,
    width,
    palette,
  );
  return table + tellRest(kinds.length - shown.length);
}

/** Writes the line under a truncated table; '' if nothing is left out. */
function tellRest(kinds: number): string {
  return kinds > 0 ? `and ${countOf(kinds, 'other kind')}\n` : '';
}

/** One line about the student that the directory has after the round. */
function describeOutcome({ outcome, version, reason, out }: RoundJson, palette: Palette): string {
  const where = makeHarmlessLine(out);
  if (outcome === 'published')
    return palette.good(
      `Version ${version} is published in ${where}: start the gateway with SVC_DISTILL_DIR=${where}\n`,
    );
  if (outcome === 'evaluated')
    return reason === ''
      ? palette.good(
          'The model is good enough: distill --student http publishes a student that asks the model\n',
        )
      : palette.bad(`The model is not good enough: ${makeHarmlessLine(reason)}\n`);
  const left = outcome === 'kept' ? `version ${version} stays in ${where}` : `no student in ${where}`;
  return palette.bad(`Nothing is published: ${makeHarmlessLine(reason)}; ${left}\n`);
}

const NOT_EXPORTED: Record<LeftOut, string> = {
  media: 'contain images, documents or sound',
  provider_tool: "have tools of the provider's own",
  other_block: 'contain parts that the format cannot express',
  other_answers: 'contain answers of a student or another model',
  shape: 'cannot be converted to the format',
  no_answer: 'have no answer to teach',
};

/** The report for a person: where the training lines are, and how to try a model that was fine-tuned with them. */
export function describeExport(report: ExportReport, width: number, palette: Palette): string {
  const { out, files, golden, runs, held_out, left_out } = report;
  const table = layOutTable(
    [
      { title: 'FILE', align: 'left' },
      { title: 'RUNS', align: 'right' },
      { title: 'LINES', align: 'right' },
      { title: 'BYTES', align: 'right' },
    ],
    files.map((file) => [
      { text: makeHarmlessLine(join(out, file.name)) },
      { text: number(file.runs) },
      { text: number(file.lines) },
      { text: number(file.bytes) },
    ]),
    width,
    palette,
  );
  const left = listCounts(left_out, NOT_EXPORTED);
  return (
    `${number(golden)} golden of ${countOf(runs, 'run')}\n\n${table}` +
    (left === '' ? '' : `Conversations left out because they ${left}\n`) +
    `\nexport.json names the runs that are held out. To try a model that was taught train.jsonl:\n` +
    `understudy distill --model-url URL --model NAME --held-out ${held_out}\n`
  );
}

/** Describes a round in one line, for a log. */
export function describeRoundLine(round: RoundJson): string {
  const { outcome, reason, version, golden, looked_at, read, student } = round;
  const runs = `${number(golden)} golden of ${countOf(looked_at, 'run')}, ${number(read)} read`;
  const measured = student?.measured;
  const figures =
    measured === undefined
      ? ''
      : `, ${measured.served} of ${countOf(measured.steps, 'step')} held out served, ${measured.errors} wrong`;
  if (outcome === 'published') return `published version ${version} (${runs}${figures})`;
  const kept = outcome === 'kept' ? `kept version ${version}` : 'published nothing';
  const after = student?.ended_after ?? null;
  const ended = after === null ? '' : `; the round ended early, after the ${after}`;
  return makeHarmlessLine(`${kept}: ${reason}${ended} (${runs}${figures})`);
}

/** `aborted 3, not ended 1`: the most frequent first. */
function listCounts<Name extends string>(
  counts: Partial<Record<Name, number>>,
  words: Readonly<Record<Name, string>>,
): string {
  return (Object.entries(counts) as [Name, number][])
    .sort((a, b) => b[1] - a[1])
    .map(([name, n]) => `${words[name]} ${number(n)}`)
    .join(', ');
}

function number(n: number): string {
  return n.toLocaleString('en-US');
}
