/**
 * Marks that people and their programs give runs: good or bad, tags, a note, a score (docs/marks.md).
 * Data; any thread.
 */
import { z } from 'zod';
import { MARKS, RUN_NOTE_CHARACTERS, RUN_TAGS, TAG_PATTERN } from '../domain/run-mark.ts';
import { endpoint, errorBody, refusal } from './endpoint.ts';
import { decimal, list, literal, text } from './fields.ts';
import { runParams } from './runs.ts';

const tag = text({ min: 1, max: RUN_TAGS.characters, pattern: TAG_PATTERN });
const tags = list(tag, { max: RUN_TAGS.count }).nullish();

export const markChangeFields = {
  mark: literal(MARKS).nullish().describe('How the run went; null: removes the mark'),
  tags: tags.describe(`All tags of the run, at most ${RUN_TAGS.count}; null or []: none`),
  add_tags: tags.describe('Tags to add to those of the run'),
  remove_tags: tags.describe('Tags to remove from the run'),
  note: text({ max: RUN_NOTE_CHARACTERS }).nullish().describe('Free text; null or empty: none'),
  feedback_score: decimal({ ge: 0, le: 1 }).nullish().describe('Score from a user; null: none'),
};

/** The marks that a list shows. */
export const markFields = {
  mark: z.enum(MARKS).nullable().describe('The mark of a person or program; null: no mark'),
  tags: z.array(z.string()).describe('Without duplicates, in the order in which they were added'),
  note: z.string().describe('The note; empty: no note'),
  feedback_score: z.number().nullable().describe('0 to 1; null: none'),
};

export const runMarks = z
  .object({
    run_id: z.string(),
    ...markFields,
    marked_at: z
      .string()
      .nullable()
      .describe('Time of the last change, RFC 3339; null: the run has no marks'),
    marked_by: z
      .string()
      .nullable()
      .describe('The user or key of the last change; null: the run has no marks'),
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
    summary: 'The marks of a run: good or bad, tags, a note, a score',
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
    summary: 'Marks a run, reported or captured; omitted fields stay unchanged',
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
    summary: 'Removes the mark, the tags, the note and the score of a run',
    replies: { 204: { description: 'The run has no marks now' }, 404: notFound, 503: unavailable },
  }),
} as const;
