/**
 * What a directory of distilled steps says of itself (`manifest.json`): which student it is, from which score on a step
 * is covered, how well that did on runs that it was not taught, and which files belong to it. `distill` and
 * `loop` write it, and the gateway reads it. Schema and wording; pure, any thread.
 */

import { z } from 'zod';
import {
  ENDPOINT_CHARACTERS,
  MODEL_CHARACTERS,
  NEVER_SERVE,
  SERVICE_ANSWERS_MAX,
  STUDENT_BOUNDS,
} from '../../limits.ts';
import { UNCOVERED_REASONS } from './decision.ts';

/** The one form there is so far. */
export const STUDENT_FORMAT = 'svc_student_v1';

/** What an error is, wherever one is counted; printed and kept beside every figure. */
export const ERROR_DEFINITION =
  "a served step is an error when its answer does not agree with the golden one: other tools, another order or other arguments; for a text, another value in it or clearly other words. Steps come from golden runs kept apart from teaching, each shown with its run's own recorded history";

/** Agents told of in a manifest, and kinds of answers of them all; the student may know more. */
export const MANIFEST_AGENTS = 100;
export const MANIFEST_KINDS = 300;

const count = z.int().nonnegative();
const share = z.number().min(0).max(1);
const time = z.iso.datetime();

/** `steps-0123456789abcdef.bin`: nothing that leads out of the directory. */
const FILE_NAME = /^steps-[0-9a-f]{16}\.bin$/;

const file = z.object({
  name: z.string().regex(FILE_NAME),
  bytes: z.int().nonnegative().max(STUDENT_BOUNDS.file_bytes),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
});

/** A service's address: http or https, without credentials, query or fragment, as an upstream's is. */
export function isStudentEndpoint(text: string): boolean {
  if (text.length > ENDPOINT_CHARACTERS || !/^https?:\/\//.test(text) || !URL.canParse(text)) return false;
  const { username, password, search, hash } = new URL(text);
  return username === '' && password === '' && search === '' && hash === '';
}

/** Which student answers. Keys never stand here: SVC_STUDENT_KEY is read where it is used. */
export const studentKind = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('exemplar') }),
  z.object({
    kind: z.literal('http'),
    /** Base address; `/v1/messages` or `/v1/chat/completions` is put behind it. */
    endpoint: z
      .string()
      .refine(isStudentEndpoint, 'not an http:// or https:// address without credentials or query'),
    model: z.string().min(1).max(MODEL_CHARACTERS),
    style: z.enum(['messages', 'chat_completions']),
    /** Answers of the model to one step that must agree; one when left out. */
    answers: z.int().min(2).max(SERVICE_ANSWERS_MAX).optional(),
    /** What golden steps themselves would answer must agree, too. */
    with_exemplar: z.boolean().optional(),
  }),
]);

/** What was found on golden runs that were kept apart. */
const measured = z.object({
  held_out_runs: count,
  /** Steps of those runs that were shown to the student. */
  steps: count,
  served: count,
  errors: count,
  /** served / steps; 0 when there is no step. */
  coverage: share,
  /** errors / served; null when nothing was served. */
  error: share.nullable(),
  /** 95 % confidence that the true share of errors is below it (Clopper and Pearson); null when nothing was served. */
  error_at_most: share.nullable(),
  /**
   * The same as the gateway serves runs that stay with the upstream: until the first step of a run that is not covered.
   * What comes behind is the upstream's.
   */
  in_a_row: z.object({ served: count, errors: count }),
  /** Runs in which every step was served rightly. */
  whole_runs: count,
  /** Of the tokens (input and output) that those runs cost, how many the served steps stand for; null: not told. */
  tokens_saved_share: share.nullable(),
  /** Steps not covered, by reason. */
  uncovered: z.partialRecord(z.enum(UNCOVERED_REASONS), count),
  error_definition: z.string().max(1_000),
  /** Of kind `http`. */
  service: z.lazy(() => serviceMeasures).optional(),
  /**
   * Whose figures these are, where they are not those of the student in this directory: one taught in the same way
   * without the runs kept apart. The one in the directory was taught those, too. Of few golden runs each is kept apart
   * once, from one of several students; runs, steps and threshold are those of the first.
   */
  of: z
    .object({
      students: z.int().min(1).max(100),
      teaching_runs: count,
      steps: count,
      threshold: share,
    })
    .optional(),
});

/** What a service did on runs kept apart, beyond what was served. */
const serviceMeasures = z.object({
  /** Steps that it was asked about, and the requests for that; those that failed or whose answer nobody may serve. */
  asked: count,
  requests: count,
  failed: count,
  /** Steps that it could not be told as they were meant, by what could not; left out in older manifests. */
  untold: z.record(z.string().max(100), count).optional(),
  /** Steps of which it had an answer, and others did not agree. */
  disagreed: count,
  /** What it counted for all of them. */
  input_tokens: count,
  output_tokens: count,
  /** What the first answer alone would have served; left out where nothing has to agree. */
  single: z.object({ served: count, errors: count }).optional(),
});

/** One kind of answer of an agent. */
const kind = z.object({
  /** `look`, `look + note` for several calls in order, or `text`. */
  kind: z.string().max(200),
  /** null: it is not served. */
  threshold: share.nullable(),
  /** Why not: too few golden runs, wrong too often in them, excepted by an operator; null: it is served. */
  refused: z.enum(['too_few', 'too_wrong', 'never_serve']).nullable(),
  /** It calls a tool whose calls no look follows: its confidence is higher. */
  is_final: z.boolean(),
  /** Golden runs and steps that say so, each from a student that did not know the run, and wrong ones of them. */
  runs: count,
  steps: count,
  errors: count,
  /** With this confidence the share of errors is at most that. */
  confidence: share,
  error_at_most: share,
});

/** One agent: a model with its tools, settings and system prompt. */
const agent = z.object({
  /** Names it within this manifest. */
  agent: z.string().max(100),
  /** Of its tools, some. */
  tools: z.array(z.string().max(100)).max(5),
  /** Provider and prefix of the route that its steps come in by; left out: the default upstream. */
  origin: z.string().max(400).optional(),
  /** null: none of its steps is served. */
  threshold: share.nullable(),
  /** `own`: its own golden steps say so; `failed`: they were wrong too often; `pooled` in older ones: those of several agents. */
  evidence: z.enum(['own', 'pooled', 'failed']),
  /** Golden runs and steps that say so, and what of them would have been served and wrong (cross-fitted). */
  runs: count,
  steps: count,
  served: count,
  errors: count,
  /** Its kinds of answers, the one with most steps first: the promise is kept for each. Left out in older manifests. */
  kinds: z.array(kind).max(MANIFEST_KINDS).optional(),
  /** What was found on the runs kept apart. */
  measured: z.object({ steps: count, served: count, errors: count }),
});

const manifest = z.object({
  format: z.literal(STUDENT_FORMAT),
  /** 1, 2, … : one more with each that is published in this directory. */
  version: z.int().min(1),
  made_at: time,
  /** From then on it serves nothing; left out: it does not expire. */
  valid_until: time.optional(),
  /** Of the program that wrote it. */
  made_by: z.string().max(100),
  student: studentKind,
  coverage: z.object({
    /** A step whose score is above it is not covered. */
    threshold: share,
    target_error: share,
    /** How the threshold was found, in words. */
    method: z.string().max(1_000),
    /** With it the error of a kind of answer is at most the target; kinds that are not looked at again have a higher one. */
    confidence: share.optional(),
    /** Tools of which no call is served. */
    never_serve: z.array(z.string().max(NEVER_SERVE.characters)).max(NEVER_SERVE.names).optional(),
    /** Each agent's own threshold, the one with most golden steps first; the threshold above is the largest of them. */
    agents: z.array(agent).max(MANIFEST_AGENTS).optional(),
  }),
  measured,
  /** The runs that it comes from. */
  golden: z.object({
    runs: count,
    teaching_runs: count,
    /** Steps taught. */
    steps: count,
    /** Runs whose hash, as a share of all hashes, is below it are kept apart, so that a later student can tell which. */
    held_out_below: share,
    /** Of the runs it comes from, and how: equal for a student that would come out the same. */
    fingerprint: z.string().max(100),
    first_exchange_id: count,
    last_exchange_id: count,
  }),
  /** `measured`: the student that was measured, to be compared with later ones. */
  files: z.object({ steps: file, measured: file.optional() }),
});

export type StudentKind = z.output<typeof studentKind>;
export type StudentMeasures = z.output<typeof measured>;
export type ServiceMeasures = z.output<typeof serviceMeasures>;
export type StudentManifest = z.output<typeof manifest>;
export type StudentFile = z.output<typeof file>;
/** A manifest before it is published: version and files come with that. */
export type StudentManifestDraft = Omit<StudentManifest, 'format' | 'version' | 'files'>;

/** What is wrong with a manifest; `newer`: its format is one that this version does not know. */
export type ManifestFault = { fault: 'damaged' | 'foreign' | 'newer'; words: string };

/** @returns the manifest, or what is wrong with it in words that fit behind the file's name */
export function readManifest(text: string): StudentManifest | ManifestFault {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return { fault: 'damaged', words: `not JSON (${(error as Error).message.slice(0, 120)})` };
  }
  const format =
    typeof value === 'object' && value !== null ? (value as { format?: unknown }).format : undefined;
  if (format !== STUDENT_FORMAT) {
    const isOurs = typeof format === 'string' && /^svc_student_v\d{1,6}$/.test(format);
    if (isOurs)
      return { fault: 'newer', words: `has the format ${format}; this version reads ${STUDENT_FORMAT}` };
    return { fault: 'foreign', words: `not a student's manifest (its format is not ${STUDENT_FORMAT})` };
  }
  const parsed = manifest.safeParse(value);
  if (!parsed.success) return { fault: 'damaged', words: describeIssue(parsed.error.issues[0]) };
  const wrong = findContradiction(parsed.data);
  return wrong === null ? parsed.data : { fault: 'damaged', words: wrong };
}

/** Whether the text is a fault and not a manifest. */
export function isManifestFault(read: StudentManifest | ManifestFault): read is ManifestFault {
  return 'fault' in read;
}

function describeIssue(issue: z.core.$ZodIssue | undefined): string {
  const path = issue?.path.map(String).join('.') ?? '';
  return `${path === '' ? 'its value' : path.slice(0, 100)}: ${(issue?.message ?? 'wrong').slice(0, 200)}`;
}

/** Figures that cannot all be true: somebody has edited them. */
function findContradiction({ measured: m }: StudentManifest): string | null {
  if (m.served > m.steps || m.errors > m.served)
    return 'measured: more served than shown, or more wrong than served';
  if (m.in_a_row.served > m.served || m.in_a_row.errors > m.in_a_row.served)
    return 'measured.in_a_row: more served than shown, or more wrong than served';
  if ((m.error === null) !== (m.served === 0))
    return 'measured.error: there when something was served, else null';
  return null;
}
