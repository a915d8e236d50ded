/**
 * Why the student served a captured step, or did not: what was decided then, what a student says of it now, the nearest
 * golden step and what is new beside it, and both answers side by side. Pure but for the source it reads from; command
 * line and capture reader.
 */

import type { RecordedDecision } from '../domain/exchange.ts';
import type { TurnBlock } from '../domain/turn.ts';
import { decodeContent } from '../providers/content-encoding.ts';
import { asObject } from '../providers/json-reading.ts';
import { normalizeTurn } from '../providers/normal-turn.ts';
import { kindOfAnswer, nameKind } from '../student/model/answer-kind.ts';
import type { StudentBlock, UncoveredReason } from '../student/model/decision.ts';
import type { StudentManifest } from '../student/model/manifest.ts';
import { NamedMarks } from '../student/model/named-marks.ts';
import { NoveltyIndex } from '../student/model/novelty.ts';
import { sentencesOf } from '../student/model/prompt-sentences.ts';
import type { StepDigest } from '../student/model/step.ts';
import { readPromptValues } from '../student/model/step-reader.ts';
import { type Doubts, type MakeStudentIndex, type Proposal, Student } from '../student/model/student.ts';
import type { StudentAgent, StudentModel } from '../student/model/student-model.ts';
import { writeServiceRequest } from '../student/serving/service-request.ts';
import { type ReadRequest, readServiceStep, UntranslatableStep } from '../student/serving/service-step.ts';
import { readStep as readWireStep, wireOf } from '../student/serving/step-reading.ts';
import { type AnswerComparison, compareAnswers } from './answer-comparison.ts';
import type { ExchangeSource } from './exchange-source.ts';
import { originOf } from './golden-steps.ts';

/** A student, read in for explaining. */
export interface ExplainingStudent {
  manifest: StudentManifest;
  model: StudentModel;
  student: Student;
}

/** Something of the step that golden steps did not have, or always had. */
export interface NewThing {
  /** `result:get_invoice.status`, `the system prompt`. */
  place: string;
  /** What stands there; null: nothing does, and golden steps always had something. */
  value: string | null;
  /** 0 … 1. */
  surprise: number;
}

export interface NearestGolden {
  /** The newest of the golden steps there; null: the student's version does not say. */
  exchange_id: number | null;
  /** Share of what tells that differs, 0 … 1. */
  distance: number;
  /** What golden runs answered there, most often first; null: answers that nothing explains. */
  answers: { kind: string | null; runs: number }[];
}

/** What a student says of the step now. */
export interface StudentOpinion {
  version: number;
  decision: 'covered' | 'untranslatable' | UncoveredReason;
  /** Which rule decided, in words. */
  rule: string;
  agent: string | null;
  kind: string | null;
  score: number | null;
  /** Largest score that is covered: of the agent's kind of answer; null: it is not served, or nobody knows. */
  threshold: number | null;
  support: number;
  doubts: Doubts | null;
  nearest: NearestGolden | null;
  /** Beside golden steps, the most surprising first. */
  new_things: NewThing[];
}

export interface StepExplanation {
  exchange_id: number;
  run_id: string | null;
  served_by: 'upstream' | 'student';
  /** What was decided then; null: it was not kept. */
  recorded: RecordedDecision | null;
  /** null: there is no student to ask, or the exchange is no step that a student reads. */
  opinion: StudentOpinion | null;
  /** Why there is none; '' when there is one. */
  problem: string;
  /** Null where one of the two answers is not known. */
  comparison: AnswerComparison | null;
}

const NEW_THINGS = 12;
const SENTENCE_CHARACTERS = 160;

/** Reads a student in. */
export function openExplaining(
  { manifest, model }: { manifest: StudentManifest; model: StudentModel },
  makeIndex: MakeStudentIndex,
): ExplainingStudent {
  return { manifest, model, student: new Student(model, makeIndex) };
}

/**
 * Explains one captured step.
 * @param student null: what was kept of the decision is told alone
 * @returns null when there is no such exchange
 */
export function explainStep(
  source: ExchangeSource,
  id: number,
  student: ExplainingStudent | null,
): StepExplanation | null {
  const record = source.exchange(id);
  const copy = source.copy(id);
  if (record === undefined || copy === undefined) return null;
  const recorded = record.relegation ?? null;
  const explanation: StepExplanation = {
    exchange_id: id,
    run_id: record.run_id,
    served_by: record.served_by,
    recorded,
    opinion: null,
    problem: '',
    comparison: null,
  };
  const turn = normalizeTurn(copy);
  const answered = turn?.answer.stop_reason == null ? null : turn.answer.content;
  let mine: readonly TurnBlock[] | null = (recorded?.answer as readonly TurnBlock[] | undefined) ?? null;
  const read = student === null ? null : readStep(copy, record);
  if (student === null) explanation.problem = 'no student to ask';
  else if (read === null) explanation.problem = 'not a step that a student reads';
  else {
    const proposal = student.student.propose(read.step);
    explanation.opinion = describeOpinion(student, read, proposal);
    // What a model would say, nobody knows without asking it.
    if (student.student.knownAgent(read.step)?.service === undefined)
      mine ??= proposal.answer?.content ?? null;
  }
  if (mine !== null && answered !== null && record.served_by === 'upstream')
    explanation.comparison = compareAnswers(mine, answered);
  return explanation;
}

interface ReadStep extends ReadRequest {
  step: StepDigest;
  marks: NamedMarks;
}

function readStep(
  copy: NonNullable<ReturnType<ExchangeSource['copy']>>,
  record: NonNullable<ReturnType<ExchangeSource['exchange']>>,
): ReadStep | null {
  const { bytes, problem } = decodeContent(copy.request_body, copy.request_headers);
  const wire = wireOf(copy.shape);
  if (problem !== '' || wire === null) return null;
  try {
    const marks = new NamedMarks();
    const body = asObject(JSON.parse(new TextDecoder().decode(bytes)));
    const at_ms = Date.parse(record.started_at);
    const read = readWireStep(wire, body, copy.request_headers, originOf(record), at_ms, marks);
    if (read === null) return null;
    for (const { name } of read.step.sources) marks.nameSource(name);
    return { ...read, wire, body, marks };
  } catch {
    return null;
  }
}

function describeOpinion(
  { manifest, model, student }: ExplainingStudent,
  read: ReadStep,
  proposal: Proposal,
): StudentOpinion {
  const { step, marks } = read;
  const { threshold } = manifest.coverage;
  const limit = Math.min(threshold, proposal.limit);
  const kind = proposal.answer === null ? null : kindOfAnswer(proposal.answer.content as StudentBlock[]);
  const isUnproven = proposal.answer !== null && proposal.limit < 0;
  const isCovered =
    proposal.answer !== null && !isUnproven && proposal.score !== null && proposal.score <= limit;
  const decision = isCovered ? 'covered' : isUnproven ? 'unproven' : proposal.reason;
  const agent = student.knownAgent(step);
  const fresh =
    decision === 'unknown_agent' || (agent === null && decision === 'bad_request')
      ? listPromptNews(model, read)
      : decision === 'other_value'
        ? listOtherValues(student.otherValues(step), read)
        : agent === null
          ? []
          : listNews(agent, step, marks);
  const opinion: StudentOpinion = {
    version: manifest.version,
    decision,
    rule: describeRule(decision, { manifest, proposal, step, agent, kind, limit, model }),
    agent: proposal.agent || null,
    kind,
    score: proposal.score,
    threshold: limit < 0 ? null : limit,
    support: proposal.support,
    doubts: proposal.doubts,
    nearest: describeNearest(proposal.nearest),
    new_things: fresh.slice(0, NEW_THINGS),
  };
  const whole = { manifest, model, student };
  return agent?.service === undefined ? opinion : describeAsking(whole, read, opinion);
}

/** Of a student that asks a service: whether it asks, which golden answers do not decide. */
function describeAsking(
  { manifest, student }: ExplainingStudent,
  read: ReadStep,
  opinion: StudentOpinion,
): StudentOpinion {
  const { step } = read;
  const decided = student.decide(step, manifest.coverage.threshold, 'coverage');
  const limit = Math.min(manifest.coverage.threshold, student.knownAgent(step)?.limit ?? -1);
  const score = decided.score?.toFixed(3) ?? '-';
  const its = {
    ...opinion,
    kind: null,
    score: decided.score,
    threshold: limit < 0 ? null : limit,
    doubts: null,
  };
  const untold = decided.covered ? findUntold(manifest.student, read) : '';
  if (untold !== '')
    return {
      ...its,
      decision: 'untranslatable',
      rule: `the model is not asked: it could not be told as it was meant (${untold})`,
    };
  if (decided.covered)
    return {
      ...its,
      decision: 'covered',
      rule: `the model is asked, since the score ${score} is within the threshold ${limit.toFixed(3)}; which kind of answer it gives decides then`,
    };
  if (decided.reason === 'unproven')
    return {
      ...its,
      decision: 'unproven',
      rule: "no kind of the model's answers is served at such a moment",
    };
  if (decided.reason === 'too_far' && decided.score !== null)
    return {
      ...its,
      decision: 'too_far',
      rule: `its score ${score} is above ${Math.max(0, limit).toFixed(3)}: it is stranger than all that the model was tried on`,
    };
  return opinion;
}

/** What the service cannot be told of a step; '' when it can be told all. */
function findUntold(student: StudentManifest['student'], read: ReadStep): string {
  if (student.kind !== 'http') return '';
  try {
    writeServiceRequest(student, readServiceStep(read));
    return '';
  } catch (thrown) {
    if (thrown instanceof UntranslatableStep) return thrown.message;
    throw thrown;
  }
}

function describeNearest(nearest: Proposal['nearest']): NearestGolden | null {
  if (nearest === null) return null;
  const { prototype, distance, stage } = nearest;
  const answers = prototype.votes
    .toSorted((a, b) => b[1] - a[1])
    .map(([c, runs]) => {
      const template = c < 0 ? null : stage.classes[c]!.template;
      const names = template?.calls.flatMap(({ name, each }) => (each ? [name, name] : [name])) ?? [];
      return { kind: template === null ? null : nameKind(names), runs };
    });
  return { exchange_id: prototype.example ?? null, distance, answers };
}

/** What the marks of the step have that golden ones at this stage had not. */
function listNews(agent: StudentAgent, step: StepDigest, marks: NamedMarks): NewThing[] {
  const stage = agent.stages.find((one) => one.stage === step.stage);
  if (stage === undefined) {
    const known = agent.stages.map((one) => one.stage || 'nothing').join('; ');
    return [{ place: 'what the step answers', value: `${step.stage} (golden steps: ${known})`, surprise: 1 }];
  }
  const found = new Map<string, NewThing>();
  for (const { kind, place, value, surprise } of new NoveltyIndex(stage.novelty).list(step.marks)) {
    const name = marks.nameOf(kind, place, value);
    const key = `${name.place} ${name.value}`;
    if (!found.has(key))
      found.set(key, { place: name.place, value: value === null ? null : name.value, surprise });
  }
  return [...found.values()];
}

/** How the request differs from the agents that the student knows. */
function listPromptNews({ groups }: StudentModel, { step, request }: ReadStep): NewThing[] {
  const agents = (groups as unknown as readonly StudentAgent[]).filter(({ scope }) => scope === step.scope);
  if (agents.length === 0)
    return [{ place: 'model, tools and settings', value: 'no golden run had them just so', surprise: 1 }];
  const prompt = new Set(step.system);
  const missingOf = ({ core }: StudentAgent) => core.filter((sentence) => !prompt.has(sentence)).length;
  const nearest = agents.toSorted((a, b) => missingOf(a) - missingOf(b))[0]!;
  const known = new Set([...nearest.core, ...nearest.known]);
  const news: NewThing[] = [];
  for (const block of request.system) {
    if (block.type !== 'text') continue;
    for (const { hash, start, end } of sentencesOf(block.text))
      if (!known.has(hash) && news.length < NEW_THINGS)
        news.push({
          place: 'the system prompt',
          value: block.text.slice(start, Math.min(end, start + SENTENCE_CHARACTERS)),
          surprise: 1,
        });
  }
  const missing = missingOf(nearest);
  if (missing > 0)
    news.push({ place: `${missing} sentences of the system prompt`, value: null, surprise: 1 });
  return news;
}

/** Values of the prompt's wording that all golden runs had otherwise, each in its sentence. */
function listOtherValues(places: readonly number[], { request }: ReadStep): NewThing[] {
  const others = new Set(places);
  const news: NewThing[] = [];
  readPromptValues(request, ({ place, from, word, sentence }) => {
    if (!others.has(place)) return;
    const value = `${word} (golden runs all had another value) in: ${sentence.slice(0, SENTENCE_CHARACTERS)}`;
    news.push({ place: from, value, surprise: 1 });
  });
  // What is beyond the bound counts as one, and has no words.
  if (news.length === 0)
    news.push({ place: 'the system prompt', value: 'a value far down in it', surprise: 1 });
  return news;
}

interface Ruling {
  manifest: StudentManifest;
  model: StudentModel;
  proposal: Proposal;
  step: StepDigest;
  agent: StudentAgent | null;
  kind: string | null;
  limit: number;
}

function describeRule(decision: 'covered' | UncoveredReason, ruling: Ruling): string {
  const { manifest, proposal, step, agent, kind, limit, model } = ruling;
  const score = proposal.score?.toFixed(3) ?? '-';
  const above = `its score ${score} is above the threshold ${Math.max(0, limit).toFixed(3)}`;
  switch (decision) {
    case 'covered':
      return `its score ${score} is within the threshold ${limit.toFixed(3)}`;
    case 'unknown_agent':
      return (model.groups as unknown as readonly StudentAgent[]).some(({ scope }) => scope === step.scope)
        ? 'the system prompt is another than in golden runs'
        : 'model, tools or settings are others than in golden runs';
    case 'other_value':
      return 'the system prompt or the task has another value where all golden runs had the same one: that is another agent';
    case 'unsupported':
      return step.unsupported || 'the request asks for an answer that no student gives';
    case 'bad_request': {
      const known = new Set(agent?.breaches ?? []);
      const news = step.breaches.filter((name) => !known.has(name));
      return `golden runs never sent what the upstream might refuse: ${news.join(', ')}`;
    }
    case 'too_far':
      if (proposal.nearest === null) return `no golden step answers "${step.stage}"`;
      return `${above}: golden steps are not near enough, or the step has something that none had`;
    case 'disagreement':
      return proposal.answer === null
        ? 'no rule explains what golden steps beside it answered'
        : `${above}: golden steps beside it answered differently`;
    case 'missing_value':
      return proposal.answer === null
        ? 'the answer needs a value that the step does not hold'
        : `${above}: the rules for its values are young, or contradict each other`;
    case 'unproven': {
      const told = manifest.coverage.agents?.find((one) => one.agent === proposal.agent);
      const its = told?.kinds?.find((one) => one.kind === kind);
      const words = {
        too_few: 'too few golden runs have it',
        too_wrong: 'it was wrong too often',
        never_serve: 'an operator excepts it',
      };
      const why = its?.refused == null ? 'its evidence is not in the manifest' : words[its.refused];
      return `answers of kind ${kind} are not served: ${why}`;
    }
    case 'invalid':
      return 'the answer would break the request’s own rules: its tools, their schemas, the choice among them, or its length';
  }
}
