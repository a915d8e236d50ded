/** Import of patterns (document 4, "Patterns"). Data; any thread. */
import { z } from 'zod';
import { FAILURE_TYPE_CHARACTERS, PATTERN_IMPORT_CHARACTERS, TIERS } from '../domain/pattern.ts';
import { MODEL_CHARACTERS } from '../limits.ts';
import { endpoint, errorBody } from './endpoint.ts';
import { cursorFields, identifier, list, literal, nextCursor, text, timestamp } from './fields.ts';
import { CURSOR_CHARACTERS, PATTERNS_PER_REQUEST } from './limits.ts';

export const newPattern = z
  .object({
    situation: text({ min: 1, max: PATTERN_IMPORT_CHARACTERS.situation }),
    dead_ends: text({ max: PATTERN_IMPORT_CHARACTERS.dead_ends }),
    unlock: text({ min: 1, max: PATTERN_IMPORT_CHARACTERS.unlock }),
    model: text({ max: MODEL_CHARACTERS }).nullish(),
    failure_type: text({ max: FAILURE_TYPE_CHARACTERS }).nullish(),
  })
  .meta({ id: 'NewPattern' });

const patternsBody = z
  .object({
    tier: literal(TIERS).describe('e3 needs a static key'),
    patterns: list(newPattern, { max: PATTERNS_PER_REQUEST }),
    project_id: identifier().nullish().describe('Project of e1 patterns; default `default`'),
  })
  .meta({ id: 'PatternImport' });

const patternRecord = z
  .object({
    pattern_id: z.string(),
    tier: z.enum(TIERS),
    project_id: z.string().nullable().describe('Project of an e1 pattern; null: another tier'),
    fields: z.object({ situation: z.string(), dead_ends: z.string(), unlock: z.string() }),
    model: z.string(),
    failure_type: z.string(),
    support: z.int().describe('How often the pattern was seen'),
    sources: z.array(z.string()).describe('The last traces from which the pattern was made'),
    created_at: z.string(),
    updated_at: z.string(),
  })
  .meta({ id: 'StoredPattern' });

const scopeQuery = {
  project_id: identifier().nullish().describe('The project whose e1 patterns are listed; default `default`'),
};
const onePatternQuery = {
  project_id: identifier()
    .nullish()
    .describe('The project of the pattern, if its tier is e1; default `default`'),
};

export const PATTERNS = {
  listPatterns: endpoint({
    id: 'list_patterns',
    method: 'GET',
    path: '/v1/patterns',
    auth: 'bearer',
    summary:
      'Patterns of the project, then of the organization, then universal ones; newest first in each group. Not metered',
    tag: 'patterns',
    query: z.object({
      ...scopeQuery,
      ...cursorFields(CURSOR_CHARACTERS),
      tier: literal(TIERS).nullish().describe('Only patterns of this tier'),
      from: timestamp().nullish().describe('Only patterns created at this time or later'),
      to: timestamp().nullish().describe('Only patterns created before this time'),
    }),
    replies: {
      200: {
        description: 'A page of patterns',
        schema: z
          .object({ patterns: z.array(patternRecord), next_cursor: nextCursor })
          .meta({ id: 'PatternPage' }),
      },
    },
  }),
  readPattern: endpoint({
    id: 'read_pattern',
    method: 'GET',
    path: '/v1/patterns/{pattern_id}',
    auth: 'bearer',
    summary: 'One pattern that the caller’s retrievals may find. Not metered',
    tag: 'patterns',
    params: z.object({ pattern_id: identifier() }),
    query: z.object(onePatternQuery),
    replies: {
      200: { description: 'The pattern', schema: patternRecord },
      404: { description: 'No such pattern, or not yours', schema: errorBody },
    },
  }),
  deletePattern: endpoint({
    id: 'delete_pattern',
    method: 'DELETE',
    path: '/v1/patterns/{pattern_id}',
    auth: 'bearer',
    summary: 'Deletes a pattern: no retrieval finds it any more',
    tag: 'patterns',
    params: z.object({ pattern_id: identifier() }),
    query: z.object(onePatternQuery),
    replies: {
      204: { description: 'Deleted' },
      403: { description: 'The pattern is universal, and the key is not the operator’s', schema: errorBody },
      404: { description: 'No such pattern, or not yours', schema: errorBody },
      409: {
        description: 'The pattern is a starter pattern, which every start of the service adds again',
        schema: errorBody,
      },
      503: { description: 'No vector store is configured, or it cannot delete now', schema: errorBody },
    },
  }),
  importPatterns: endpoint({
    id: 'import_patterns',
    method: 'POST',
    path: '/v1/patterns',
    auth: 'bearer',
    summary: 'Stores patterns; a near-duplicate raises the support of the existing pattern',
    tag: 'patterns',
    body: patternsBody,
    replies: {
      200: {
        description: 'All patterns are stored',
        schema: z
          .object({
            created: z.int().min(0),
            merged: z.int().min(0),
            patterns: z.array(z.object({ pattern_id: z.string(), created: z.boolean() })),
          })
          .meta({ id: 'PatternsImported' }),
      },
      403: { description: 'The tier is e3, and the key is not the operator’s', schema: errorBody },
      409: { description: 'There is no room for this many patterns', schema: errorBody },
      503: { description: 'No vector store is configured, or it cannot store now', schema: errorBody },
    },
  }),
} as const;
