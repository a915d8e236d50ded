/** What a round of `distill` or `loop` did, for a person and as JSON. Pure; main thread. */

import { join } from 'node:path';
import { percent } from '../analysis/distill.ts';
import type { RunFault } from '../analysis/golden-run.ts';
import type { UntaughtReason } from '../analysis/golden-steps.ts';
import type { AnswerKindMeasure } from '../analysis/student-measures.ts';
import type { LeftOut } from '../analysis/training-lines.ts';
import type { Tier } from '../domain/pattern.ts';
import { DISTILL_BODY_BYTES } from '../limits.ts';
import { countOf } from '../std/count-of.ts';
import {
  type CurvePoint,
  cleanRunsNeeded,
  KIND_RUNS_MIN,
  type KindRefusal,
} from '../student/model/calibration.ts';
import type { UncoveredReason } from '../student/model/decision.ts';
import type { StudentManifestDraft } from '../student/model/manifest.ts';
import type { ExportReport } from './distill-export.ts';
import type { RoundReport } from './distill-round.ts';
import { layOutTable, makeHarmlessLine, type Palette } from './terminal-text.ts';

const NOT_GOLDEN: Record<RunFault, string> = {
  no_turn: 'no model turn',
  aborted: 'aborted',
  truncated: 'stored copy cut off',
  undecodable: 'body unreadable',
  seq_gap: 'x-svc-seq has gaps',
  seq_missing: 'x-svc-seq partly missing',
  seq_repeated: 'x-svc-seq given twice',
  unlinked: 'conversation broken',
  failed_call: 'failed call not retried to success',
  unfinished: 'not ended',
  shape: 'other API',
  side_call: 'calls of a client beside its work',
  outcome: 'monitor run not a success',
  too_large: `a body above ${DISTILL_BODY_BYTES / 1_048_576} MiB`,
};

const UNTAUGHT: Record<UntaughtReason, string> = {
  other_shape: 'not POST /v1/messages',
  served_by_student: 'a student answered',
  unreadable: 'unreadable',
  too_many: 'in the rest of a long run',
};

const UNCOVERED: Record<UncoveredReason, string> = {
  unknown_agent: 'unknown agent',
  other_value: 'another value than all golden runs had in the prompt',
  unsupported: 'asks for what no student gives',
  too_far: 'nothing near enough',
  disagreement: 'golden steps disagree',
  unproven: 'kinds of answers without evidence enough, or wrong too often',
  bad_request: 'the upstream may refuse the request',
  missing_value: 'a value is missing',
  invalid: 'the answer would be invalid',
};

/** Kinds of answers that the table has lines for; every kind that was wrong has one besides. */
const KINDS_SHOWN = 12;

/** For a person: what would be served first, then what it comes from. */
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
  if (agents.length > 0) text += `\n${layOutAgents(agents, student!.coverage.target_error, width, palette)}`;
  if (student?.student.kind === 'http' && agents.length > 0)
    text += `\n${layOutKinds(agents, width, palette)}`;
  if (student !== null && student.by_answer.length > 0)
    text += `\n${layOutAnswers(student.by_answer, width, palette)}`;
  text += `\n${describeOutcome(round, palette)}`;
  if (patterns.path !== null)
    text += `To import the patterns: understudy patterns import --tier ${tier} ${makeHarmlessLine(patterns.path)}\n`;
  return text;
}

function describeRuns({ runs, looked_at, passed_over }: RoundJson): string {
  if (looked_at === runs) return number(runs);
  const passed = passed_over === 0 ? '' : `, ${number(passed_over)} of agents that have newer ones enough`;
  const left = runs - looked_at - passed_over;
  const older = left === 0 ? '' : `, ${number(left)} older ones not looked at`;
  return `${number(runs)}: the newest ${number(looked_at)} read${passed}${older}`;
}

function describePatterns({ count, found }: RoundJson['patterns']): string {
  if (count === 0) return 'none: no golden run failed on the way and recovered';
  return found === count ? number(count) : `${number(count)}, from ${number(found)} with their like merged`;
}

function describeServed({ measured }: NonNullable<RoundJson['student']>): [string, string][] {
  const facts: [string, string][] = [
    [
      'served',
      `${number(measured.served)} of ${countOf(measured.steps, 'step')} kept apart (${percent(measured.coverage)})`,
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
      `${number(served)} in a row, until the first of a run that it does not cover, ${number(errors)} wrong`,
    ]);
  }
  facts.push([
    'whole runs',
    `${number(measured.whole_runs)} of ${number(measured.held_out_runs)} served rightly to the end`,
  ]);
  if (measured.tokens_saved_share !== null)
    facts.push([
      'tokens',
      `${percent(measured.tokens_saved_share)} of those runs' tokens not asked of the upstream`,
    ]);
  if (measured.service !== undefined) facts.push(...describeService(measured.service, measured.served));
  const uncovered = listCounts(measured.uncovered, UNCOVERED);
  if (uncovered !== '') facts.push(['not served', uncovered]);
  return facts;
}

/** What asking a model cost, and what agreement of several answers changed. */
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
    facts.push(['not asked', `${reasons.join(', ')}: the model cannot be told such a step`]);
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
    taught_runs === found
      ? ''
      : `; of ${countOf(found, 'golden run')}, the newest of each agent that there is room for`;
  const facts: [string, string][] = [
    ['taught', `${countOf(golden.teaching_runs, 'run')}, ${countOf(golden.steps, 'step')}${of}`],
  ];
  if (measured.of !== undefined) {
    const { students, teaching_runs } = measured.of;
    const whose = students === 1 ? 'one' : `${students}, each`;
    facts.push([
      'measured',
      `${whose} taught ${students === 1 ? '' : 'some '}${countOf(teaching_runs, 'run')} of these, on others`,
    ]);
  }
  facts.push(
    ['kept apart', `${countOf(measured.held_out_runs, 'run')}, ${countOf(measured.steps, 'step')}`],
    ['threshold', threshold < 0 ? 'none' : `${Number(threshold.toFixed(4))} (${coverage.method})`],
    ['an error is', measured.error_definition],
  );
  return facts;
}

type Agent = NonNullable<StudentManifestDraft['coverage']['agents']>[number];

/** Every agent, and what it needs before more of it is served. */
function layOutAgents(agents: readonly Agent[], target: number, width: number, palette: Palette): string {
  const rows = agents.map((its) => [
    { text: makeHarmlessLine(its.agent) },
    { text: number(its.runs) },
    { text: number(its.measured.steps) },
    { text: number(its.measured.served) },
    { text: number(its.measured.errors), ...(its.measured.errors > 0 ? { paint: palette.bad } : {}) },
    { text: describeNeed(its, target), ...(its.threshold === null ? { paint: palette.bad } : {}) },
    {
      text: makeHarmlessLine(
        its.tools.join(', ') + (its.origin === undefined ? '' : ` (at ${its.origin.trim()})`),
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

/** What stands between an agent and being served, or being served more. */
function describeNeed({ threshold, evidence, runs, kinds = [] }: Agent, target: number): string {
  const refused = kinds.filter((its) => its.refused !== null);
  if (threshold !== null)
    return refused.length === 0 ? 'served' : `served, but not ${describeRefused(refused, target)}`;
  if (evidence === 'failed') return 'left out: wrong too often';
  const missing = KIND_RUNS_MIN - runs;
  if (missing > 0) return `not served: needs ${missing} more golden ${missing === 1 ? 'run' : 'runs'}`;
  return refused.length === 0
    ? 'not served: no golden step was like another'
    : `not served: ${describeRefused(refused, target)}`;
}

/** Lines for what a model answers; every kind in which it was wrong has one besides. */
const SERVICE_KINDS_SHOWN = 40;

/** What a model would serve of each agent, and with which error. */
function layOutKinds(agents: readonly Agent[], width: number, palette: Palette): string {
  const all = agents.flatMap(({ agent, kinds = [] }) => kinds.map((kind) => ({ ...kind, agent })));
  const shown = all.filter(({ errors }, at) => at < SERVICE_KINDS_SHOWN || errors > 0);
  const rows = shown.map(({ agent, kind, runs, steps, errors, error_at_most, refused }) => [
    { text: makeHarmlessLine(agent) },
    { text: makeHarmlessLine(kind) },
    { text: number(runs) },
    { text: number(steps) },
    { text: number(errors), ...(errors > 0 ? { paint: palette.bad } : {}) },
    { text: percent(error_at_most) },
    {
      text: refused === null ? 'served' : REFUSED[refused],
      ...(refused === null ? {} : { paint: palette.bad }),
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

const REFUSED: Record<KindRefusal, string> = {
  too_few: 'too few golden runs',
  too_wrong: 'wrong too often',
  never_serve: 'excepted',
};

/** Kinds of answers that an agent's table names; what is wrong comes first. */
const REFUSED_SHOWN = 4;

function describeRefused(kinds: NonNullable<Agent['kinds']>, target: number): string {
  const sorted = kinds.toSorted(
    (a, b) => Number(b.refused === 'too_wrong') - Number(a.refused === 'too_wrong'),
  );
  const words = sorted
    .slice(0, REFUSED_SHOWN)

    .map((its) => `${makeHarmlessLine(its.kind)} (${REFUSED[its.refused!]}${describeMissing(its, target)})`);
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

/** The line under a table that is cut. */
function tellRest(kinds: number): string {
  return kinds > 0 ? `and ${countOf(kinds, 'other kind')}\n` : '';
}

/** One line: what is in the directory now. */
function describeOutcome({ outcome, version, reason, out }: RoundJson, palette: Palette): string {
  const where = makeHarmlessLine(out);
  if (outcome === 'published')
    return palette.good(
      `Version ${version} is published in ${where}: start the gateway with SVC_DISTILL_DIR=${where}\n`,
    );
  if (outcome === 'evaluated')
    return reason === ''
      ? palette.good('The model is good enough: distill --student http publishes a student that asks it\n')
      : palette.bad(`The model is not good enough: ${makeHarmlessLine(reason)}\n`);
  const left = outcome === 'kept' ? `version ${version} stays in ${where}` : `no student in ${where}`;
  return palette.bad(`Nothing is published: ${makeHarmlessLine(reason)}; ${left}\n`);
}

const NOT_EXPORTED: Record<LeftOut, string> = {
  media: 'hold images, documents or sound',
  provider_tool: "have tools of the provider's own",
  other_block: 'hold what the form has no word for',
  other_answers: 'hold answers of a student or another model',
  shape: 'cannot be put into the form',
  no_answer: 'have no answer to teach',
};

/** For a person: where the lines are, and how a model that was taught them is tried. */
export function describeExport(report: ExportReport, width: number, palette: Palette): string {
  const { out, files, golden, runs, held_out, left_out } = report;
  const table = layOutTable(
    [
      { title: 'FILE', align: 'left' },
      { title: 'RUNS', align: 'right' },
      { title: 'LINES', align: 'right' },
      { title: 'BYTES', align: 'right' },
    ],
    files.map((its) => [
      { text: makeHarmlessLine(join(out, its.name)) },
      { text: number(its.runs) },
      { text: number(its.lines) },
      { text: number(its.bytes) },
    ]),
    width,
    palette,
  );
  const left = listCounts(left_out, NOT_EXPORTED);
  return (
    `${number(golden)} golden of ${countOf(runs, 'run')}\n\n${table}` +
    (left === '' ? '' : `Conversations left out, as they ${left}\n`) +
    `\nexport.json names the runs that are kept apart. To try a model that was taught train.jsonl:\n` +
    `understudy distill --model-url URL --model NAME --held-out ${held_out}\n`
  );
}

/** One line a round, for a log. */
export function describeRoundLine(round: RoundJson): string {
  const { outcome, reason, version, golden, looked_at, read, student } = round;
  const runs = `${number(golden)} golden of ${countOf(looked_at, 'run')}, ${number(read)} read`;
  const measured = student?.measured;
  const figures =
    measured === undefined
      ? ''
      : `, ${measured.served} of ${countOf(measured.steps, 'step')} kept apart served, ${measured.errors} wrong`;
  if (outcome === 'published') return `published version ${version} (${runs}${figures})`;
  const kept = outcome === 'kept' ? `kept version ${version}` : 'published nothing';
  return makeHarmlessLine(`${kept}: ${reason} (${runs}${figures})`);
}

/** A round as `--json` prints it. */
export interface RoundJson
  extends Pick<RoundReport, 'outcome' | 'reason' | 'version' | 'taught_runs' | 'patterns'> {
  out: string;
  runs: number;
  looked_at: number;
  passed_over: number;
  read: number;
  golden: number;
  steps: number;
  not_golden: RoundReport['material']['not_golden'];
  untaught: RoundReport['material']['untaught'];
  /** The new student, published or not; null: it did not come to that. */
  student:
    | (StudentManifestDraft & {
        /** Below 0: nothing would be served. */
        threshold: number;
        by_answer: AnswerKindMeasure[];
        curve: CurvePoint[];
      })
    | null;
}

/** The report without the student's own data. */
export function toRoundJson(report: RoundReport, out: string): RoundJson {
  const { outcome, reason, version, material, taught_runs, patterns, student } = report;
  return {
    outcome,
    reason,
    version,
    out,
    ...material,
    taught_runs,
    patterns,
    student:
      student === null
        ? null
        : {
            ...student.draft,
            threshold: student.threshold,
            by_answer: student.by_answer,
            curve: student.calibration.curve,
          },
  };
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

/** How many of the runs that it takes there are. */
function describeMissing(
  { refused, runs, errors, is_final }: NonNullable<Agent['kinds']>[number],
  target: number,
): string {
  if (refused !== 'too_few' || errors > 0) return '';
  const needed = cleanRunsNeeded(is_final, target);
  return runs < needed ? `: ${number(runs)} of ${number(needed)}` : '';
}
