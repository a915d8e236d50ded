/** Import of patterns (decisions, Patterns). Data; any thread. */
import { z } from 'zod';
import { TIERS } from '../domain/pattern.ts';
import {
  FAILURE_TYPE_CHARACTERS,
  MODEL_CHARACTERS,
  PATTERN_IMPORT_CHARACTERS,
  PATTERNS_PER_REQUEST,
} from '../limits.ts';
import { endpoint, errorBody } from './endpoint.ts';
import { identifier, list, literal, text } from './fields.ts';

export const newPattern = z
  .object({
    situation: text({ min: 1, max: PATTERN_IMPORT_CHARACTERS.situation }),
    dead_ends: text({ max: PATTERN_IMPORT_CHARACTERS.dead_ends }),
    unlock: text({ min: 1, max: PATTERN_IMPORT_CHARACTERS.unlock }),
    model: text({ max: MODEL_CHARACTERS }).nullish(),
    failure_type: text({ max: FAILURE_TYPE_CHARACTERS }).nullish(),
  })
  .meta({ id: 'NewPattern' });

export const patternsBody = z
  .object({
    tier: literal(TIERS).describe('e3 is for static keys'),
    patterns: list(newPattern, { max: PATTERNS_PER_REQUEST }),
    project_id: identifier().nullish().describe('Of e1 patterns; default `default`'),
  })
  .meta({ id: 'PatternImport' });

export const PATTERNS = {
  importPatterns: endpoint({
    id: 'import_patterns',
    method: 'POST',
    path: '/v1/patterns',
    auth: 'bearer',
    summary: 'Stores patterns; a near-duplicate raises the support of the one that is there',
    tag: 'patterns',
    body: patternsBody,
    replies: {
      200: {
        description: 'All of them are stored',
        schema: z
          .object({
            created: z.int().min(0),
            merged: z.int().min(0),
            patterns: z.array(z.object({ pattern_id: z.string(), created: z.boolean() })),
          })
          .meta({ id: 'PatternsImported' }),
      },
      403: { description: 'e3 with a key that is not the operator’s', schema: errorBody },
      409: { description: 'There is no room for so many', schema: errorBody },
      503: { description: 'No vector store is configured, or it takes nothing now', schema: errorBody },
    },
  }),
} as const;
