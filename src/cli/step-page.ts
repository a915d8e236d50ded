/**
 * One step explained: what relegation decided about it, why, and both answers side by side. The page of `understudy inspect
 * --step` and `understudy relegation explain`. Main thread of the command line.
 */

import type { AnswerComparison } from '../analysis/answer-comparison.ts';
import type { ExchangeSource } from '../analysis/exchange-source.ts';
import {
  explainStep,
  openExplaining,
  type StepExplanation,
  type StudentOpinion,
} from '../analysis/step-explanation.ts';
import type { RecordedDecision } from '../domain/exchange.ts';
import { describeDecision } from '../domain/relegation-words.ts';
import { chooseIndex } from '../search/open-index.ts';
import { countOf } from '../std/count-of.ts';
import { readStudentDirectory, readStudentVersion, StudentDirectoryError } from '../student/directory.ts';
import { type InspectView, layOutHead, layOutPart } from './inspect-view.ts';
import { type CliIo, EXIT } from './io.ts';
import { formatJson, makeHarmless, makeHarmlessLine } from './terminal-text.ts';

/**
 * Explains a step.
 * @param directory of the student; null: none is asked
 * @returns the exit status: 1 when there is no such exchange, or no student can be read
 */
export async function showStep(view: InspectView, id: number, directory: string | null): Promise<number> {
  let explanation: StepExplanation | null;
  try {
    explanation = await explainFrom(view.source, id, directory, view.io);
  } catch (error) {
    if (!(error instanceof StudentDirectoryError)) throw error;
    view.io.err(`understudy: ${makeHarmlessLine(error.message)}\n`);
    return EXIT.failed;
  }
  if (explanation === null) {
    view.io.err(`understudy: the database has no exchange ${id}.\nWhich it has: understudy inspect --json\n`);
    return EXIT.failed;
  }
  await view.io.out(view.flags.json ? `${formatJson(explanation, 2)}\n` : layOutStepPage(view, explanation));
  return EXIT.done;
}

/** By the version that decided, where it is kept; else by the one that serves. */
async function explainFrom(
  source: ExchangeSource,
  id: number,
  directory: string | null,
  io: CliIo,
): Promise<StepExplanation | null> {
  if (directory === null) return explainStep(source, id, null);
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
  return explainStep(source, id, openExplaining(found, makeIndex));
}

function layOutStepPage(view: InspectView, explanation: StepExplanation): string {
  const record = view.source.exchange(explanation.exchange_id)!;
  let text = `${layOutHead(view, record, null)}\n`;
  text += layOutPart(view, 'decided', layOutDecision(view, explanation.recorded));
  if (explanation.opinion !== null) text += layOutOpinion(view, explanation.opinion);
  else text += layOutPart(view, 'student', view.paint.dim(makeHarmlessLine(explanation.problem)));
  if (explanation.comparison !== null) text += layOutComparison(view, explanation.comparison);
  return text;
}

function layOutDecision(view: InspectView, recorded: RecordedDecision | null): string {
  if (recorded === null) return view.paint.dim('nothing is kept of what relegation decided');
  const { decision, student_version, score } = recorded;
  const words = describeDecision(decision);
  const by = student_version === null ? '' : `, by version ${student_version}`;
  const at = score === null ? '' : `, score ${score.toFixed(3)}`;
  return makeHarmlessLine(`${decision}${words === null ? '' : `: ${words}`}${by}${at}`);
}

function layOutOpinion(view: InspectView, opinion: StudentOpinion): string {
  const { dim, good, bad } = view.paint;
  const { version, decision, rule, agent, kind, doubts, nearest } = opinion;
  let text = layOutPart(
    view,
    'student',
    `version ${version}: ${decision === 'covered' ? good(decision) : bad(decision)}: ${makeHarmlessLine(rule)}`,
  );
  if (agent !== null) text += layOutPart(view, 'agent', makeHarmlessLine(agent));
  if (kind !== null)
    text += layOutPart(
      view,
      'answer',
      `${makeHarmlessLine(kind)} ${dim(`(behind it: ${countOf(opinion.support, 'golden run')})`)}`,
    );
  if (doubts !== null) {
    const named = Object.entries(doubts).map(([name, value]) => `${name} ${(value as number).toFixed(3)}`);
    text += layOutPart(view, 'doubts', named.join(', '));
  }
  if (nearest !== null) {
    const from = nearest.exchange_id === null ? 'golden steps' : `golden step #${nearest.exchange_id}`;
    const answers = nearest.answers
      .slice(0, 5)
      .map((one) => `${one.kind ?? 'an answer of its own'} (${countOf(one.runs, 'run')})`);
    text += layOutPart(
      view,
      'nearest',
      makeHarmlessLine(
        `${from}, ${(100 * nearest.distance).toFixed(1)} % of what tells differs; answered ${answers.join(', ')}`,
      ),
    );
  }
  for (const { place, value, surprise } of opinion.new_things) {
    const what = value === null ? `${place}: missing` : `${place}${value === '' ? '' : `: ${value}`}`;
    text += layOutPart(view, 'new', `${makeHarmlessLine(what)} ${dim(`(${surprise.toFixed(2)})`)}`);
  }
  return text;
}

/** Both answers, a value to a line; where they agree, that alone. */
export function layOutComparison(view: InspectView, { agree, values }: AnswerComparison): string {
  const { good, bad, dim } = view.paint;
  if (agree) return layOutPart(view, 'compared', good('the student and the upstream agree'));
  let text = layOutPart(view, 'compared', bad('the student and the upstream disagree'));
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
