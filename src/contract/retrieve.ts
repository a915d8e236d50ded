/** Retrieval of patterns before a task (document 2). Data; any thread. */
import { z } from 'zod';
import { FAILURE_TYPE_CHARACTERS, TIERS } from '../domain/pattern.ts';
import { MODEL_CHARACTERS } from '../limits.ts';
import { endpoint } from './endpoint.ts';
import { decimal, identifier, integer, literal, text } from './fields.ts';
import { RETRIEVE_CONTEXT_CHARACTERS, RETRIEVE_TOP_K_DEFAULT, RETRIEVE_TOP_K_MAX } from './limits.ts';

/** Default of the minimum similarity of a retrieval (document 4, "v1"). */
const RETRIEVE_MIN_SIMILARITY = 0.35;

const retrieveBody = z
  .object({
    context: text({ max: RETRIEVE_CONTEXT_CHARACTERS }).describe(
      'The task in a sentence; the search compares patterns with it',
    ),
    tier: literal(TIERS)
      .nullish()
      .describe('e1: patterns of the project, e2: of the organization, e3: universal. Absent: all tiers'),
    top_k: integer({ ge: 1, le: RETRIEVE_TOP_K_MAX }).default(RETRIEVE_TOP_K_DEFAULT),
    min_similarity: decimal({ ge: 0, le: 1 })
      .default(RETRIEVE_MIN_SIMILARITY)
      .describe('Less similar patterns are left out'),
    model: text({ max: MODEL_CHARACTERS })
      .nullish()
      .describe('Among nearly equal patterns, those learned by a model of the same family come first'),
    failure_type: text({ max: FAILURE_TYPE_CHARACTERS })
      .nullish()
      .describe('Only patterns of exactly this category; empty: any'),
    project_id: identifier().nullish().describe('The project; ignored with a project’s own key'),
  })
  .meta({ id: 'Retrieve' });

const foundPattern = z
  .object({
    tier: z.enum(TIERS),
    pattern_id: z.string(),
    similarity: z.number().min(0).max(1),
    fields: z.object({ situation: z.string(), dead_ends: z.string(), unlock: z.string() }),
  })
  .meta({ id: 'Pattern' });

export const RETRIEVE = {
  retrieve: endpoint({
    id: 'retrieve_patterns',
    method: 'POST',
    path: '/v1/traces/retrieve',
    auth: 'bearer',
    writes: false,
    summary: 'Patterns that fit a task, to put into its prompt',
    tag: 'patterns',
    body: retrieveBody,
    replies: {
      200: {
        description:
          'The patterns, best first; empty if no pattern fits, or if the interventions of the month are used up',
        schema: z.object({ traces: z.array(foundPattern) }).meta({ id: 'Retrieved' }),
        headers: ['x-svc-retrieval'],
      },
    },
  }),
} as const;
