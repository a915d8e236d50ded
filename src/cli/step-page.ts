/**
 * One step explained: relegation's decision, its reasons, and both answers side by side. The page of `understudy
 * inspect --step` and `understudy relegation explain`. Main thread of the command line.
 */

import type { ExchangeSource } from '../captures/exchange-source.ts';
import type { RelegationWire } from '../domain/exchange.ts';
import { tellInSentences } from '../domain/relegation-words.ts';
import { chooseIndex } from '../search/open-index.ts';
import { countOf } from '../std/count-of.ts';
import { readAgentNames } from '../student/agent-names.ts';
import { readStudentDirectory, readStudentVersion, StudentDirectoryError } from '../student/directory.ts';
import type { AnswerComparison } from '../teaching/answer-comparison.ts';
import {
  explainStep,
  openExplaining,
  type StepExplanation,
  type StudentOpinion,
} from '../teaching/step-explanation.ts';
import { type InspectView, layOutHead, layOutPart } from './inspect-view.ts';
import { type CliIo, EXIT } from './io.ts';
import { formatJson, makeHarmless, makeHarmlessLine } from './terminal-text.ts';

/**
 * Explains a step.
 * @param directory the student's directory; null: no student is asked
 * @param wires the wire formats for which a student is asked
 * @returns the exit status: 1 for an unknown exchange, or if `directory` has no readable student
 */
export async function showStep(
  view: InspectView,
  id: number,
  directory: string | null,
  wires: readonly RelegationWire[],
): Promise<number> {
  let explanation: StepExplanation | null;
  try {
    explanation = await explainFrom(view.source, id, directory, wires, view.io);
  } catch (error) {
    if (!(error instanceof StudentDirectoryError)) throw error;
    view.io.err(`understudy: ${makeHarmlessLine(error.message)}\n`);
    return EXIT.failed;
  }
  if (explanation === null) {
    view.io.err(
      `understudy: the database has no exchange ${id}.\nTo list its exchanges: understudy inspect --json\n`,
    );
    return EXIT.failed;
  }
  await view.io.out(view.flags.json ? `${formatJson(explanation, 2)}\n` : layOutStepPage(view, explanation));
  return EXIT.done;
}

/**
 * Explains the step by the student version that decided. If no version is recorded for the exchange, or the recorded
 * version is missing or unreadable, the serving version explains the step.
 * @param directory the student's; null: no version explains the step
 */
async function explainFrom(
  source: ExchangeSource,
  id: number,
  directory: string | null,
  wires: readonly RelegationWire[],
  io: CliIo,
): Promise<StepExplanation | null> {
  if (directory === null) return explainStep(source, id, null, wires);
  const decidedBy = source.exchange(id)?.relegation?.student_version ?? null;
  const kept =
    decidedBy === null
      ? null
      : await readStudentVersion(directory, decidedBy).catch((error: unknown) => {
          if (error instanceof StudentDirectoryError) return null;
          throw error;
        });
  const found = kept ?? (await readStudentDirectory(directory));
  const makeIndex = chooseIndex((message) => io.err(`warning: ${message}\n`));
  const explanation = explainStep(source, id, openExplaining(found, makeIndex), wires);
  const { opinion } = explanation ?? {};
  if (opinion?.agent != null)
    opinion.agent_name = (await readAgentNames(directory)).get(opinion.agent) ?? opinion.agent_name;
  return explanation;
}

function layOutStepPage(view: InspectView, explanation: StepExplanation): string {
  const record = view.source.exchange(explanation.exchange_id)!;
  let text = `${layOutHead(view, record, null)}\n`;
  text += layOutPart(view, 'decided', layOutDecision(view, explanation));
  if (explanation.opinion !== null) text += layOutOpinion(view, explanation.opinion);
  else
    text += layOutPart(
      view,
      'student',
      view.paint.dim(makeHarmlessLine(`No opinion: ${explanation.problem}.`)),
    );
  if (explanation.comparison !== null) text += layOutComparison(view, explanation.comparison);
  return text;
}

function layOutDecision(view: InspectView, { recorded, not_asked }: StepExplanation): string {
  if (recorded === null)
    return not_asked === ''
      ? view.paint.dim('No relegation decision is stored with this exchange.')
      : makeHarmlessLine(`No student was asked: ${not_asked}.`);
  const { decision, student_version, score } = recorded;
  const facts = [
    decision,
    ...(student_version === null ? [] : [`version ${student_version}`]),
    ...(score === null ? [] : [`score ${score.toFixed(3)}`]),
  ];
  return makeHarmlessLine(`${tellInSentences(decision)} (${facts.join(', ')})`);
}

function layOutOpinion(view: InspectView, opinion: StudentOpinion): string {
  const { dim, good, bad } = view.paint;
  const { version, decision, rule, remedy, agent, agent_name, kind, doubts, nearest } = opinion;
  const verdict =
    decision === 'covered' ? good('would serve it now') : bad(`would not serve it now (${decision})`);
  let text = layOutPart(
    view,
    'student',
    `Version ${version} ${verdict}: ${makeHarmlessLine(rule)}.${remedy === '' ? '' : ` The step ${makeHarmlessLine(remedy)}.`}`,
  );
  if (agent !== null)
    text += layOutPart(
      view,
      'agent',
      makeHarmlessLine(agent_name === '' ? agent : `${agent_name} (${agent})`),
    );
  if (kind !== null)
    text += layOutPart(
      view,
      'answer',
      `The student would answer with ${makeHarmlessLine(kind)}, as in ${countOf(opinion.support, 'golden run')}.`,
    );
  if (doubts !== null) text += layOutPart(view, 'doubts', describeDoubts(doubts));
  if (nearest !== null) text += layOutPart(view, 'nearest', makeHarmlessLine(describeNearest(nearest)));
  for (const { place, value, surprise } of opinion.new_things) {
    const what = value === null ? `${place}: missing` : `${place}${value === '' ? '' : `: ${value}`}`;
    text += layOutPart(view, 'new', `${makeHarmlessLine(what)} ${dim(`(${surprise.toFixed(2)})`)}`);
  }
  return text;
}

const DOUBTS: readonly [keyof NonNullable<StudentOpinion['doubts']>, string][] = [
  ['novelty', 'something that golden steps did not have'],
  ['distance', 'the nearest golden step differs'],
  ['disagreement', 'golden steps were answered differently'],
  ['slots', 'values of the answer were seldom tested'],
];

/** Describes the parts of the score, the largest first. */
function describeDoubts(doubts: NonNullable<StudentOpinion['doubts']>): string {
  const parts = DOUBTS.filter(([name]) => doubts[name] >= 0.000_5)
    .toSorted(([a], [b]) => doubts[b] - doubts[a])
    .map(([name, words]) => `${name} ${doubts[name].toFixed(3)} (${words})`);
  return parts.length === 0
    ? 'No part of the score speaks against the answer.'
    : `The score comes from ${parts.join(', ')}.`;
}

function describeNearest({ exchange_id, distance, answers }: NonNullable<StudentOpinion['nearest']>): string {
  const which =
    exchange_id === null
      ? 'The nearest golden steps differ'
      : `The nearest is golden step #${exchange_id}. It differs`;
  const said = answers
    .slice(0, 5)
    .map((answer) => `${answer.kind ?? 'a unique answer'} (${countOf(answer.runs, 'run')})`);
  return `${which} in ${(100 * distance).toFixed(1)} % of the informative features${said.length === 0 ? '' : `; golden runs answered ${said.join(', ')}`}.`;
}

/** Lays out the values in which the two answers differ, or one line if the answers agree. */
export function layOutComparison(
  view: InspectView,
  { agree, reading_differs, values }: AnswerComparison,
): string {
  const { good, bad, dim } = view.paint;
  if (agree) return layOutPart(view, 'compared', good('the student and the upstream agree'));
  const words = reading_differs
    ? "two readings of the upstream's answer differ"
    : 'the student and the upstream disagree';
  let text = layOutPart(view, 'compared', bad(words));
  for (const { place, student, upstream } of values) {
    if (student === upstream) continue;
    text += layOutPart(view, '', makeHarmlessLine(place));
    text += layOutPart(view, '', `  student   ${student === null ? dim('nothing') : makeHarmless(student)}`);
    text += layOutPart(
      view,
      '',
      `  upstream  ${upstream === null ? dim('nothing') : makeHarmless(upstream)}`,
    );
  }
  return text;
}
