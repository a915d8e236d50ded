/**
 * Explains why the student did or did not serve a captured step: the decision at that time, the present
 * student's view, the nearest golden step, the differences from it, and both answers side by side. Pure
 * except for its source; command line and capture reader.
 */

import type { ExchangeSource } from '../captures/exchange-source.ts';
import { RELEGATION_WIRES, type RecordedDecision, type RelegationWire } from '../domain/exchange.ts';
import { describeKindRefusal } from '../domain/kind-refusal.ts';
import { describeRemedy } from '../domain/relegation-words.ts';
import type { TurnBlock } from '../domain/turn.ts';
import { decodeContent } from '../providers/content-encoding.ts';
import { asObject } from '../providers/json-reading.ts';
import { normalizeTurn } from '../providers/normal-turn.ts';
import { parseExact } from '../std/exact-json.ts';
import { kindOfAnswer, nameKind } from '../student/model/answer-kind.ts';
import type { JudgeAnswer, StudentBlock, UncoveredReason } from '../student/model/decision.ts';
import type { StudentManifest } from '../student/model/manifest.ts';
import { NoveltyIndex } from '../student/model/novelty.ts';
import { PromptMatcher } from '../student/model/prompt-template.ts';
import type { StepDigest } from '../student/model/step.ts';
import { readPromptValues } from '../student/model/step-reader.ts';
import { type Doubts, type MakeStudentIndex, type Proposal, Student } from '../student/model/student.ts';
import type { StudentAgent, StudentModel } from '../student/model/student-model.ts';
import { readAnswerBytes, readingsDiffer } from '../student/serving/answer-bytes.ts';
import { writeServiceRequest } from '../student/serving/service-request.ts';
import { type ReadRequest, readServiceStep, UntranslatableStep } from '../student/serving/service-step.ts';
import { readStep as readWireStep, wireOf } from '../student/serving/step-reading.ts';
import { type AnswerComparison, compareAnswers } from './answer-comparison.ts';
import { originOf } from './golden-steps.ts';
import { NamedMarks } from './named-marks.ts';

/** A student loaded for explanations. */
export interface ExplainingStudent {
  manifest: StudentManifest;
  model: StudentModel;
  student: Student;
}

/** A value that no golden step has, or a missing value that all golden steps have. */
interface NewThing {
  /** `result:get_invoice.status`, `the system prompt`. */
  place: string;
  /** The value; null when golden steps always had a value and this step has no value. */
  value: string | null;
  /** 0 … 1. */
  surprise: number;
}

interface NearestGolden {
  /** The exchange of the newest of these golden steps; null for older versions, which do not store it. */
  exchange_id: number | null;
  /** Share of the worth of informative marks that differs, 0 … 1. */
  distance: number;
  /** The answers of these golden steps, the most frequent first; `kind` is null if no template explains the answer. */
  answers: { kind: string | null; runs: number }[];
}

/** What the student decides about the step now. */
export interface StudentOpinion {
  version: number;
  decision: 'covered' | 'untranslatable' | UncoveredReason;
  /** The deciding rule, in words. */
  rule: string;
  /** The condition under which the answer would be served, as a clause about the step; '' if it is served. */
  remedy: string;
  agent: string | null;
  /** The first words of its prompt; '' when they are not known. */
  agent_name: string;
  kind: string | null;
  score: number | null;
  /** Largest score that is covered for the agent's kind of answer; null when it is not served, or unknown. */
  threshold: number | null;
  support: number;
  doubts: Doubts | null;
  nearest: NearestGolden | null;
  /** What is new in comparison with golden steps, the most surprising first. */
  new_things: NewThing[];
}

export interface StepExplanation {
  exchange_id: number;
  run_id: string | null;
  served_by: 'upstream' | 'student';
  /** The decision at that time; null if it was not stored. */
  recorded: RecordedDecision | null;
  /** The variable that prevents the gateway from asking a student on this wire; '' if the gateway asks. */
  not_asked: string;
  /** null when there is no student to ask, or no student reads the exchange. */
  opinion: StudentOpinion | null;
  /** Why the student could not judge the step; '' if it could. */
  problem: string;
  /** null when one of the two answers is unknown. */
  comparison: AnswerComparison | null;
}

const NEW_THINGS = 12;
const SENTENCE_CHARACTERS = 160;

/** Loads a student. */
export function openExplaining(
  { manifest, model }: { manifest: StudentManifest; model: StudentModel },
  makeIndex: MakeStudentIndex,
): ExplainingStudent {
  return { manifest, model, student: new Student(model, makeIndex) };
}

/**
 * Explains one captured step.
 * @param student null: only the decision at that time is reported, and its answer is compared
 * @param wires on which a student is asked (GW_RELEGATION_WIRES)
 * @returns null when there is no such exchange
 */
export function explainStep(
  source: ExchangeSource,
  id: number,
  student: ExplainingStudent | null,
  wires: readonly RelegationWire[] = RELEGATION_WIRES,
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
    not_asked: describeWire(wireOf(copy.shape)?.name ?? null, wires),
    opinion: null,
    problem: '',
    comparison: null,
  };
  const turn = normalizeTurn(copy);
  const answered = turn?.answer.stop_reason == null ? null : turn.answer.content;
  let mine: readonly TurnBlock[] | null = (recorded?.answer as readonly TurnBlock[] | undefined) ?? null;
  let agrees: JudgeAnswer | undefined;
  const read = student === null ? null : readStep(copy, record);
  if (student === null) explanation.problem = 'no student is published, or SVC_DISTILL_DIR is not set';
  else if (read === null)
    explanation.problem =
      'a student reads only whole requests of the wires messages, chat_completions and responses';
  else {
    const proposal = student.student.propose(read.step);
    explanation.opinion = describeOpinion(student, read, proposal);
    // A model's answer is unknown until the model is asked.
    if (student.student.knownAgent(read.step)?.service === undefined)
      mine ??= proposal.answer?.content ?? null;
    const isProposed = proposal.answer !== null && isSameContent(mine, proposal.answer.content);
    if (isProposed) agrees = (other) => student.student.agrees(read.step, proposal, other);
  }
  if (mine !== null && answered !== null && record.served_by === 'upstream') {
    const wire = wireOf(copy.shape);
    const said = wire === null ? null : readAnswerBytes(wire.name, copy.response_headers, copy.response_body);
    const readingDiffers = said !== null && readingsDiffer(answered, said);
    explanation.comparison = compareAnswers(mine, said ?? answered, readingDiffers, agrees);
  }
  return explanation;
}

/**
 * Why no student is asked on a wire; '' if a student is asked, or if `wire` is null: no student answers on this wire.
 */
function describeWire(wire: RelegationWire | null, wires: readonly RelegationWire[]): string {
  if (wire === null || wires.includes(wire)) return '';
  return `GW_RELEGATION_WIRES (${wires.join(',')}) leaves ${wire} out, so no student is asked; it would be asked if the variable named ${wire}`;
}

function isSameContent(a: readonly TurnBlock[] | null, b: readonly TurnBlock[]): boolean {
  return a !== null && JSON.stringify(a) === JSON.stringify(b);
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
    const body = asObject(parseExact(new TextDecoder().decode(bytes)));
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
  const ruling: Ruling = { manifest, proposal, step, agent, kind, limit, model, fresh };
  const opinion: StudentOpinion = {
    version: manifest.version,
    decision,
    rule: describeRule(decision, ruling),
    remedy: describeSpecificRemedy(decision, ruling),
    agent: proposal.agent || null,
    agent_name: manifest.coverage.agents?.find((told) => told.agent === proposal.agent)?.title ?? '',
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

/** Whether a student that uses a service asks it about the step. Golden answers do not matter for this. */
function describeAsking(
  { manifest, student }: ExplainingStudent,
  read: ReadStep,
  opinion: StudentOpinion,
): StudentOpinion {
  const { step } = read;
  const decided = student.decide(step, manifest.coverage.threshold, 'coverage');
  const limit = Math.min(manifest.coverage.threshold, student.knownAgent(step)?.limit ?? -1);
  const score = decided.score?.toFixed(3) ?? '-';
  const remedy = decided.covered ? '' : describeRemedy(decided.reason);
  const base = {
    ...opinion,
    remedy,
    kind: null,
    score: decided.score,
    threshold: limit < 0 ? null : limit,
    doubts: null,
  };
  const untold = decided.covered ? findUntold(manifest.student, read) : '';
  if (untold !== '')
    return {
      ...base,
      decision: 'untranslatable',
      remedy: `would be served if it had no ${untold}`,
      rule: `the model is not asked, because it does not support ${untold}`,
    };
  if (decided.covered)
    return {
      ...base,
      decision: 'covered',
      rule: `the model is asked, since the score ${score} is within the threshold ${limit.toFixed(3)}; the kind of its answer then decides`,
    };
  if (decided.reason === 'unproven')
    return {
      ...base,
      decision: 'unproven',
      rule: "the model is not asked, because none of its kinds of answer may be served at this step's stage",
    };
  if (decided.reason === 'too_far' && decided.score !== null)
    return {
      ...base,
      decision: 'too_far',
      rule: `its score ${score} is above ${Math.max(0, limit).toFixed(3)}: it is more unusual than every step on which the model was tried`,
    };
  return opinion;
}

/** The part of a step that cannot be translated for the service; '': the whole step can. */
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

/**
 * Lists what is new in the step: values that golden steps at this stage do not have, and values that they all have and
 * this step lacks; or the stage itself, if golden steps have no such stage.
 */
function listNews(agent: StudentAgent, step: StepDigest, marks: NamedMarks): NewThing[] {
  const stage = agent.stages.find((candidate) => candidate.stage === step.stage);
  if (stage === undefined) {
    const known = agent.stages.map((stage) => stage.stage || 'nothing').join('; ');
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
function listPromptNews({ groups }: StudentModel, { step }: ReadStep): NewThing[] {
  const agents = (groups as unknown as readonly StudentAgent[]).filter(({ scope }) => scope === step.scope);
  if (agents.length === 0)
    return [{ place: 'model, tools and settings', value: 'no golden run had this combination', surprise: 1 }];
  const { prompt = [], at_ms = null } = step;
  const misfits = agents.map((agent) => new PromptMatcher(agent.prompt).findMisfit(prompt, at_ms));
  const sizeOf = (misfit: (typeof misfits)[number]) => (misfit?.unknown.length ?? 0) + (misfit?.missing ?? 0);
  const nearest = misfits.toSorted((a, b) => sizeOf(a) - sizeOf(b))[0];
  if (nearest === null || nearest === undefined) return [];
  const news = nearest.unknown.slice(0, NEW_THINGS).map(([block, sentence]) => ({
    place: 'the system prompt',
    value: prompt[block]![sentence]!.trim().slice(0, SENTENCE_CHARACTERS),
    surprise: 1,
  }));
  const { missing } = nearest;
  const place = `the system prompt, without ${missing} of the golden sentences`;
  return missing === 0 ? news : [...news, { place, value: null, surprise: 1 }];
}

/**
 * Values in the prompt's wording that differ from the common value of all golden runs, each with its
 * sentence.
 */
function listOtherValues(places: readonly number[], { request }: ReadStep): NewThing[] {
  const others = new Set(places);
  const news: NewThing[] = [];
  readPromptValues(request, ({ place, from, word, sentence }) => {
    if (!others.has(place)) return;
    const value = `${word} (all golden runs had another value) in: ${sentence.slice(0, SENTENCE_CHARACTERS)}`;
    news.push({ place: from, value, surprise: 1 });
  });
  // Values beyond the bound are combined into one entry, without their words.
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
  fresh: readonly NewThing[];
}

function describeRule(decision: 'covered' | UncoveredReason, ruling: Ruling): string {
  const { proposal, step, agent, kind, limit, model } = ruling;
  const score = proposal.score?.toFixed(3) ?? '-';
  const above = `its score ${score} is above the threshold ${Math.max(0, limit).toFixed(3)}`;
  switch (decision) {
    case 'covered':
      return `its score ${score} is within the threshold ${limit.toFixed(3)}`;
    case 'unknown_agent':
      return (model.groups as unknown as readonly StudentAgent[]).some(({ scope }) => scope === step.scope)
        ? 'the system prompt differs from golden runs'
        : 'model, tools or settings differ from golden runs';
    case 'other_value':
      return 'the system prompt or the task has another value where all golden runs had the same one: that is another agent';
    case 'unsupported':
      return step.unsupported || 'the request asks for an answer that no student can give';
    case 'bad_request': {
      const known = new Set(agent?.breaches ?? []);
      const news = step.breaches.filter((name) => !known.has(name));
      return `golden runs never sent what the upstream might refuse: ${news.join(', ')}`;
    }
    case 'too_far':
      if (proposal.nearest === null) return `no golden step answers "${step.stage}"`;
      return `${above}: golden steps are not near enough, or the step has something that none of them had`;
    case 'disagreement':
      return proposal.answer === null
        ? 'no rule explains the answers of the nearest golden steps'
        : `${above}: the nearest golden steps answered differently`;
    case 'missing_value':
      return proposal.answer === null
        ? 'the answer needs a value that the step does not hold'
        : `${above}: the rules for its values were seldom tested, or contradict each other`;
    case 'unproven': {
      const why = findKindRefusal(ruling)?.why ?? 'golden runs show too little of it';
      return `answers of kind ${kind} are not served: ${why}`;
    }
    case 'invalid':
      return 'the answer would break the request’s own rules: its tools, their schemas, the choice among them, or its length';
  }
}

/** What golden runs say against the kind of answer; null when the manifest does not list it. */
function findKindRefusal({ manifest, proposal }: Ruling): ReturnType<typeof describeKindRefusal> {
  const told = manifest.coverage.agents?.find((candidate) => candidate.agent === proposal.agent);
  const evidence = told?.kinds?.find((candidate) => candidate.kind === proposal.form);
  return evidence === undefined ? null : describeKindRefusal(evidence);
}

/** The condition under which this step would be served, as a clause about it. */
function describeSpecificRemedy(decision: 'covered' | UncoveredReason, ruling: Ruling): string {
  const { proposal, step, fresh } = ruling;
  switch (decision) {
    case 'covered':
      return '';
    case 'unproven':
      return findKindRefusal(ruling)?.remedy ?? describeRemedy(decision);
    case 'too_far': {
      if (proposal.nearest === null)
        return `would be served after a round with golden runs that have a step after "${step.stage || 'nothing'}"`;
      const [newest] = fresh;
      const isNovel = (proposal.doubts?.novelty ?? 0) >= (proposal.doubts?.distance ?? 0);
      if (!isNovel || newest === undefined) return describeRemedy(decision);
      const what = newest.value === null ? `lack ${newest.place}` : `have the same value at ${newest.place}`;
      return `would be served after a round with golden runs that ${what}`;
    }
    default:
      return describeRemedy(decision);
  }
}
