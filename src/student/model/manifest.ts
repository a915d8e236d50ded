/**
 * The manifest of a student's directory (`manifest.json`): which student it is, its thresholds, its measured quality on
 * held-out runs, and its files. `distill` and `loop` write the manifest, and the gateway reads it. This file has the
 * schema and the texts of its faults. Pure; any thread.
 */

import { z } from 'zod';
import { MODEL_CHARACTERS } from '../../limits.ts';
import { UNCOVERED_REASONS } from './decision.ts';

/** Maximum length of a service's address. */
const ENDPOINT_CHARACTERS = 2_048;
/** Maximum number of a service's answers to one step that an operator may require to agree. */
export const SERVICE_ANSWERS_MAX = 5;
/** Maximum number of tools that an operator excludes from being served, and maximum length of a name. */
export const NEVER_SERVE = { names: 100, characters: 128 } as const;
/** Maximum sizes in a student's directory: the manifest, each stored file, and the unpacked steps in memory. */
export const STUDENT_BOUNDS = {
  manifest_bytes: 256 << 10,
  file_bytes: 256 << 20,
  unpacked_bytes: 512 << 20,
} as const;

/** The only format so far. */
export const STUDENT_FORMAT = 'svc_student_v1';

/** Definition of an error for every error count; printed and stored beside the figures. */
export const ERROR_DEFINITION =
  "a served step is an error when its answer is not equivalent to the golden one: other tools, another order or other arguments; for a text, another value in it or clearly other words. Wordings of the same values, and orders of calls, that golden runs use interchangeably are equivalent. Steps come from golden runs held out from teaching, each shown with its run's own recorded history";

/**
 * Maximum number of agents listed in a manifest, and of kinds of answers over all of them; the student may
 * know more.
 */
export const MANIFEST_AGENTS = 100;
export const MANIFEST_KINDS = 300;

const count = z.int().nonnegative();
const share = z.number().min(0).max(1);
const time = z.iso.datetime();

/** `steps-0123456789abcdef.bin`; never a path out of the directory. */
const FILE_NAME = /^steps-[0-9a-f]{16}\.bin$/;

const file = z.object({
  name: z.string().regex(FILE_NAME),
  bytes: z.int().nonnegative().max(STUDENT_BOUNDS.file_bytes),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
});

/** A service's address: http or https, without credentials, query or fragment, like an upstream's. */
export function isStudentEndpoint(text: string): boolean {
  if (text.length > ENDPOINT_CHARACTERS || !/^https?:\/\//.test(text) || !URL.canParse(text)) return false;
  const { username, password, search, hash } = new URL(text);
  return username === '' && password === '' && search === '' && hash === '';
}

/** Which student answers. The manifest never holds a key; the key is in SVC_STUDENT_KEY. */
const studentKind = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('exemplar') }),
  z.object({
    kind: z.literal('http'),
    /** Base address; `/v1/messages` or `/v1/chat/completions` is appended. */
    endpoint: z
      .string()
      .refine(isStudentEndpoint, 'not an http:// or https:// address without credentials or query'),
    model: z.string().min(1).max(MODEL_CHARACTERS),
    style: z.enum(['messages', 'chat_completions']),
    /** Number of the model's answers to one step that must agree; absent: one. */
    answers: z.int().min(2).max(SERVICE_ANSWERS_MAX).optional(),
    /** Whether the answer derived from golden steps must agree, too. */
    with_exemplar: z.boolean().optional(),
  }),
]);

/** Measurements on held-out golden runs. */
const measured = z.object({
  held_out_runs: count,
  /** Steps of the held-out runs that the student was asked about. */
  steps: count,
  served: count,
  errors: count,
  /** served / steps; 0 when there is no step. */
  coverage: share,
  /** errors / served; null: nothing was served. */
  error: share.nullable(),
  /** Upper bound on the true error rate at 95 % confidence (Clopper and Pearson); null when nothing was served. */
  error_at_most: share.nullable(),
  /**
   * `served` and `errors` under sticky relegation. Counting stops at the first step of a run that is not covered,
   * because the upstream serves all later ones.
   */
  in_a_row: z.object({ served: count, errors: count }),
  /** Runs in which every step was served correctly. */
  whole_runs: count,
  /** Share of the held-out runs' tokens (input and output) that belong to served steps; null when not reported. */
  tokens_saved_share: share.nullable(),
  /** Steps not covered, by reason. */
  uncovered: z.partialRecord(z.enum(UNCOVERED_REASONS), count),
  error_definition: z.string().max(1_000),
  /** Figures of the service; only for a student of kind `http`. */
  service: z.lazy(() => serviceMeasures).optional(),
  /**
   * The measured student, if another student serves. It was taught in the same way as the serving student, but without
   * the held-out runs. With few golden runs, several students are measured, and each run is held out from one of these
   * students. The runs, steps and threshold here are then those of the first student.
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

/** Figures of a service on held-out runs, including answers that were not served. */
const serviceMeasures = z.object({
  /**
   * Number of steps that the service was asked about, of requests for them, and of failed requests or unusable answers.
   */
  asked: count,
  requests: count,
  failed: count,
  /** Steps that could not be translated for the service, by the untranslatable part; absent in older manifests. */
  untold: z.record(z.string().max(100), count).optional(),
  /** Steps for which the service gave answers that did not agree. */
  disagreed: count,
  /** Tokens that the service counted for all requests. */
  input_tokens: count,
  output_tokens: count,
  /** What the first answer alone would have served; absent: no agreement is required. */
  single: z.object({ served: count, errors: count }).optional(),
});

/** One kind of answer of an agent. */
const kind = z.object({
  /** `look`, `look + note` for several calls in order, or `text`. */
  kind: z.string().max(200),
  /** Largest score at which the kind is served; null: the kind is not served. */
  threshold: share.nullable(),
  /**
   * Why the kind is not served: too few golden runs, too many errors in them, or excluded by an operator; null: it is
   * served.
   */
  refused: z.enum(['too_few', 'too_wrong', 'never_serve']).nullable(),
  /** The answer calls a tool whose effect no later lookup checks, so a higher confidence is required. */
  is_final: z.boolean(),
  /**
   * Golden runs and steps behind these figures, and the errors. A student that did not know the run made each answer.
   */
  runs: count,
  steps: count,
  errors: count,
  /**
   * Golden runs with an answer of this kind at any score, and the number of runs that is required; absent in older
   * manifests.
   */
  seen_runs: count.optional(),
  needed_runs: count.optional(),
  /** Confidence of the test that decided whether the kind is served. */
  confidence: share,
  /** Upper bound on the error rate at this confidence. */
  error_at_most: share,
});

/** One agent: a model with its tools, settings and system prompt. */
const agent = z.object({
  /** Its name within this manifest. */
  agent: z.string().max(100),
  /** The first words of its prompt, for people; absent: its prompts begin differently. */
  title: z.string().max(100).optional(),
  /** Some of its tools. */
  tools: z.array(z.string().max(100)).max(5),
  /** Provider and route prefix by which its steps arrive; absent: the default upstream. */
  origin: z.string().max(400).optional(),
  /** null when none of its steps is served. */
  threshold: share.nullable(),
  /** `own`: its own golden steps; `failed`: they were wrong too often. */
  evidence: z.enum(['own', 'failed']),
  /** Golden runs and steps behind these figures, and how many steps would be served and wrong (cross-fitted). */
  runs: count,
  steps: count,
  served: count,
  errors: count,
  /** Its kinds of answers, the most frequent first; `target_error` holds for each. Absent in older manifests. */
  kinds: z.array(kind).max(MANIFEST_KINDS).optional(),
  /** Measurements on the held-out runs. */
  measured: z.object({ steps: count, served: count, errors: count }),
});

const manifest = z.object({
  format: z.literal(STUDENT_FORMAT),
  /** 1, 2, …: incremented with each publication in this directory. */
  version: z.int().min(1),
  made_at: time,
  /** From this time on the student serves nothing; absent: it does not expire. */
  valid_until: time.optional(),
  /** Version of the program that wrote it. */
  made_by: z.string().max(100),
  student: studentKind,
  coverage: z.object({
    /** A step with a higher score is not covered. */
    threshold: share,
    target_error: share,
    /** How the threshold was found, in words. */
    method: z.string().max(1_000),
    /**
     * Confidence that the error rate of a kind of answer is at most the target; higher for kinds whose effect
     * no lookup checks.
     */
    confidence: share.optional(),
    /** Tools whose calls are not served. */
    never_serve: z.array(z.string().max(NEVER_SERVE.characters)).max(NEVER_SERVE.names).optional(),
    /** How many times as much as another error an error of a final call costs. */
    final_cost: z.number().positive().optional(),
    /**
     * Each agent's own threshold, the agent with most golden steps first. `threshold` is the largest of these.
     */
    agents: z.array(agent).max(MANIFEST_AGENTS).optional(),
  }),
  measured,
  /** The runs from which it was made. */
  golden: z.object({
    /** Golden runs in the database. */
    runs: count,
    /** Runs and steps that the student was taught. */
    teaching_runs: count,
    steps: count,
    /**
     * Runs whose hash is below this share of all hashes are held out. By this value a later round recognizes these
     * runs.
     */
    held_out_below: share,
    /** Identifies the runs and the method; equal fingerprints mean equal students. */
    fingerprint: z.string().max(100),
    first_exchange_id: count,
    last_exchange_id: count,
  }),
  /** `measured`: the student that was measured, for comparison with later students. */
  files: z.object({ steps: file, measured: file.optional() }),
});

export type StudentKind = z.output<typeof studentKind>;
export type StudentMeasures = z.output<typeof measured>;
export type ServiceMeasures = z.output<typeof serviceMeasures>;
export type StudentManifest = z.output<typeof manifest>;
export type StudentFile = z.output<typeof file>;
/** A manifest before publication, which adds version and files. */
export type StudentManifestDraft = Omit<StudentManifest, 'format' | 'version' | 'files'>;

/** What is wrong with a manifest; `newer`: this version does not know its format. */
type ManifestFault = { fault: 'damaged' | 'foreign' | 'newer'; words: string };

/**
 * Reads and checks a manifest.
 * @returns the manifest, or what is wrong with it in words that follow the file's name
 */
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
      return {
        fault: 'newer',
        words: `has the format ${format}; this version reads ${STUDENT_FORMAT}; distil again`,
      };
    return { fault: 'foreign', words: `not a student's manifest (its format is not ${STUDENT_FORMAT})` };
  }
  const parsed = manifest.safeParse(value);
  if (!parsed.success) return { fault: 'damaged', words: describeIssue(parsed.error.issues[0]) };
  const wrong = findContradiction(parsed.data);
  return wrong === null ? parsed.data : { fault: 'damaged', words: wrong };
}

/** Whether the result is a fault and not a manifest. */
export function isManifestFault(read: StudentManifest | ManifestFault): read is ManifestFault {
  return 'fault' in read;
}

function describeIssue(issue: z.core.$ZodIssue | undefined): string {
  const path = issue?.path.map(String).join('.') ?? '';
  return `${path === '' ? 'its value' : path.slice(0, 100)}: ${(issue?.message ?? 'wrong').slice(0, 200)}`;
}

/** Finds figures that contradict each other, which shows that the file was edited. */
function findContradiction({ measured: m }: StudentManifest): string | null {
  if (m.served > m.steps || m.errors > m.served)
    return 'measured: more served than shown, or more wrong than served';
  if (m.in_a_row.served > m.served || m.in_a_row.errors > m.in_a_row.served)
    return 'measured.in_a_row: more served than shown, or more wrong than served';
  if ((m.error === null) !== (m.served === 0))
    return 'measured.error: must be a number if something was served, and null otherwise';
  return null;
}
