/** What people and their programs say of runs: good or bad, tags, a note, a score (decisions, Marks). Data; any thread. */
import { z } from 'zod';
import { MARKS, RUN_NOTE_CHARACTERS, RUN_TAGS, TAG_PATTERN } from '../domain/run-mark.ts';
import { endpoint, errorBody, refusal } from './endpoint.ts';
import { decimal, list, literal, text } from './fields.ts';
import { runParams } from './runs.ts';

const tag = text({ min: 1, max: RUN_TAGS.characters, pattern: TAG_PATTERN });
const tags = list(tag, { max: RUN_TAGS.count }).nullish();

export const markChangeFields = {
  mark: literal(MARKS).nullish().describe('How the run went; null: takes the mark away'),
  tags: tags.describe(`All tags of the run, at most ${RUN_TAGS.count}; null or []: none`),
  add_tags: tags.describe('Tags beside those that the run has'),
  remove_tags: tags.describe('Tags that it loses'),
  note: text({ max: RUN_NOTE_CHARACTERS }).nullish().describe('Free text; null or empty: none'),
  feedback_score: decimal({ ge: 0, le: 1 }).nullish().describe('What a user thought of it; null: none'),
};

/** What a list shows of it. */
export const markFields = {
  mark: z.enum(MARKS).nullable().describe("A person's; null: none"),
  tags: z.array(z.string()).describe('Each once, in the order in which they came'),
  note: z.string().describe("A person's; empty without one"),
  feedback_score: z.number().nullable().describe('0 to 1; null: none'),
};

export const runMarks = z
  .object({
    run_id: z.string(),
    ...markFields,
    marked_at: z.string().nullable().describe('The last change, RFC 3339; null: nothing is said of the run'),
    marked_by: z.string().nullable().describe('The user or key of the last change; null: as above'),
  })
  .meta({ id: 'RunMarks' });

const notFound = { description: 'No such run, or not yours', schema: errorBody };
const unavailable = refusal('Whether the run was captured cannot be looked up now; the detail says why');
const common = { path: '/v1/runs/{id}/marks', auth: 'bearer', tag: 'runs', params: runParams } as const;

export const RUN_MARKS_API = {
  readRunMarks: endpoint({
    ...common,
    id: 'readRunMarks',
    method: 'GET',
    summary: 'What was said of a run: good or bad, tags, a note, a score',
    replies: {
      200: { description: 'The marks', schema: runMarks },
      404: notFound,
      503: unavailable,
    },
  }),
  markRun: endpoint({
    ...common,
    id: 'markRun',
    method: 'POST',
    summary: 'Says something of a run, reported or captured; what is left out stays as it was',
    body: z.object(markChangeFields).meta({ id: 'RunMarkChange' }),
    replies: {
      200: { description: 'The marks that the run has now', schema: runMarks },
      404: notFound,
      503: unavailable,
    },
  }),
  clearRunMarks: endpoint({
    ...common,
    id: 'clearRunMarks',
    method: 'DELETE',
    summary: 'Takes the mark, the tags, the note and the score of a run away',
    replies: { 204: { description: 'Nothing is said of the run' }, 404: notFound, 503: unavailable },
  }),
} as const;
