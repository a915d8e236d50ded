/** Findings about a code base (document 2, Finding). Data; any thread. */

import { z } from 'zod';
import { FINDING_BOUNDS } from '../domain/finding-bounds.ts';
import { endpoint, errorBody } from './endpoint.ts';
import {
  cursorFields,
  cutText,
  decimal,
  freeObject,
  identifier,
  integer,
  list,
  nextCursor,
  pageFields,
  printable,
  text,
  timestamp,
} from './fields.ts';
import { CODEBASE_ID_CHARACTERS, CURSOR_CHARACTERS, FINDINGS_TOP_K } from './limits.ts';

/**
 * Maximum length of a finding's metadata as JSON, in UTF-16 units. Longer metadata is refused, because a cut
 * object has no meaning.
 */
export const FINDING_METADATA_CHARACTERS = 16_384;
/** Maximum number of paths in one request for coverage or invalidation. */
export const FINDING_PATHS = 10_000;

/**
 * Texts are cut after the keys in them were masked. The text is read this far beyond the cut, so that no half
 * of a key remains at the end.
 */
const MASKING_MARGIN = 8_192;

/** The project of a new finding, or the only project that is searched. A project's key determines it. */
const projectField = { project_id: identifier().nullish() };

const codebaseParams = z.object({
  codebase_id: printable({ min: 1, max: CODEBASE_ID_CHARACTERS }),
});

/** Makes the schema of a long text, which is cut and not refused (`src/domain/finding.ts`). */
function longText(bound: number, min = 0) {
  return cutText({ min, max: bound + MASKING_MARGIN });
}

const metadata = freeObject().superRefine((object, context) => {
  if (JSON.stringify(object).length <= FINDING_METADATA_CHARACTERS) return;
  const error = `metadata may have at most ${FINDING_METADATA_CHARACTERS} characters`;
  const params = { type: 'value_error', msg: `Value error, ${error}`, ctx: { error } };
  context.addIssue({ code: 'custom', message: params.msg, params });
});

export const findingBody = z
  .object({
    ...projectField,
    content: longText(FINDING_BOUNDS.content, 1),
    file_path: longText(FINDING_BOUNDS.file_path).default(''),
    finding_type: longText(FINDING_BOUNDS.finding_type).default('note'),
    metadata: metadata.nullish(),
  })
  .meta({ id: 'FindingNote' });

const findingStored = z
  .object({ finding_id: z.string(), created_at: z.string() })
  .meta({ id: 'FindingStored' });

const findingSchema = z
  .object({
    finding_id: z.string(),
    project_id: z.string(),
    content: z.string(),
    file_path: z.string(),
    finding_type: z.string(),
    metadata: z.record(z.string(), z.unknown()),
    created_at: z.string(),
  })
  .meta({ id: 'Finding' });

/** A filter; null and absent: no filter. */
const filterFields = {
  file_path: longText(FINDING_BOUNDS.file_path).nullish(),
  finding_type: longText(FINDING_BOUNDS.finding_type).nullish(),
};

const recallBody = z
  .object({
    ...projectField,
    query: cutText({ max: FINDING_BOUNDS.query }),
    top_k: integer({ ge: 1, le: FINDINGS_TOP_K }).default(5),
    score_threshold: decimal({ ge: 0, le: 1 }).default(0.25),
    ...filterFields,
  })
  .meta({ id: 'FindingRecall' });

const recalled = findingSchema.extend({ score: z.number().min(0).max(1) }).meta({ id: 'RecalledFinding' });

/** Texts of any length, so that the full text finds a finding whose text was cut when it was stored. */
const pathList = list(longText(FINDING_BOUNDS.file_path), { max: FINDING_PATHS });

const pathsBody = z.object({ ...projectField, file_paths: pathList }).meta({ id: 'FindingPaths' });

const store = endpoint({
  id: 'store_finding',
  method: 'POST',
  path: '/v1/findings/{codebase_id}',
  auth: 'bearer',
  summary: 'Store a finding about a code base',
  tag: 'findings',
  params: codebaseParams,
  body: findingBody,
  replies: {
    200: {
      description: 'The finding is stored. Findings with the same content are stored once',
      schema: findingStored,
    },
  },
});

const listCodebases = endpoint({
  id: 'list_codebases',
  method: 'GET',
  path: '/v1/findings',
  auth: 'bearer',
  summary: 'Code bases with findings, in descending order of id; with a project filter a page may be short',
  tag: 'findings',
  query: z.object({ ...projectField, ...cursorFields(CURSOR_CHARACTERS) }),
  replies: {
    200: {
      description: 'A page of code bases',
      schema: z
        .object({
          codebases: z.array(
            z.object({
              codebase_id: z.string(),
              findings: z.int().min(0).nullable().describe('Number of findings; null with a project filter'),
            }),
          ),
          next_cursor: nextCursor,
        })
        .meta({ id: 'CodebasePage' }),
    },
  },
});

const readFinding = endpoint({
  id: 'read_finding',
  method: 'GET',
  path: '/v1/findings/{codebase_id}/{finding_id}',
  auth: 'bearer',
  summary: 'One finding about a code base',
  tag: 'findings',
  params: codebaseParams.extend({ finding_id: identifier() }),
  query: z.object({ ...projectField }),
  replies: {
    200: { description: 'The finding', schema: findingSchema },
    404: { description: 'No such finding, or not yours', schema: errorBody },
  },
});

const listFindings = endpoint({
  id: 'list_findings',
  method: 'GET',
  path: '/v1/findings/{codebase_id}',
  auth: 'bearer',
  summary: 'The findings about a code base, newest first',
  tag: 'findings',
  params: codebaseParams,
  query: z.object({
    ...projectField,
    ...pageFields(),
    cursor: text({ max: CURSOR_CHARACTERS }).nullish().describe('`next_cursor` of the previous page'),
    ...filterFields,
    from: timestamp().nullish().describe('Only findings that were stored at this time or later'),
    to: timestamp().nullish().describe('Only findings that were stored before this time'),
  }),
  replies: {
    200: {
      description: 'One page; `x-total-count` counts all findings of the list',
      schema: z
        .object({ findings: z.array(findingSchema), total: z.int().min(0), next_cursor: nextCursor })
        .meta({ id: 'FindingPage' }),
      headers: ['x-total-count'],
    },
  },
});

const recall = endpoint({
  id: 'recall_findings',
  method: 'POST',
  path: '/v1/findings/{codebase_id}/recall',
  auth: 'bearer',
  writes: false,
  summary: 'The findings most similar to a question',
  tag: 'findings',
  params: codebaseParams,
  body: recallBody,
  replies: {
    200: {
      description: 'The findings, most similar first',
      schema: z.object({ findings: z.array(recalled) }).meta({ id: 'RecalledFindings' }),
    },
  },
});

const invalidate = endpoint({
  id: 'invalidate_findings',
  method: 'POST',
  path: '/v1/findings/{codebase_id}/invalidate',
  auth: 'bearer',
  summary: 'Delete the findings about exactly these paths',
  tag: 'findings',
  params: codebaseParams,
  body: pathsBody,
  replies: {
    200: {
      description: 'Number of deleted findings',
      schema: z.object({ deleted: z.int().min(0) }).meta({ id: 'FindingsDeleted' }),
    },
  },
});

const coverage = endpoint({
  id: 'findings_coverage',
  method: 'POST',
  path: '/v1/findings/{codebase_id}/coverage',
  auth: 'bearer',
  writes: false,
  summary: 'The share of the given paths about which there are findings',
  tag: 'findings',
  params: codebaseParams,
  body: pathsBody,
  replies: {
    200: {
      description:
        'The share. A finding about a path also counts for every shorter path with which that path ends',
      schema: z.object({ coverage: z.number().min(0).max(1) }).meta({ id: 'FindingsCoverage' }),
    },
  },
});

const clear = endpoint({
  id: 'clear_findings',
  method: 'DELETE',
  path: '/v1/findings/{codebase_id}',
  auth: 'bearer',
  summary: 'Delete all findings about a code base',
  tag: 'findings',
  params: codebaseParams,
  query: z.object({ ...projectField }),
  replies: {
    200: {
      description: 'No findings remain',
      schema: z.object({ cleared: z.literal(true) }).meta({ id: 'FindingsCleared' }),
    },
  },
});

const deleteFinding = endpoint({
  id: 'delete_finding',
  method: 'DELETE',
  path: '/v1/findings/{codebase_id}/{finding_id}',
  auth: 'bearer',
  summary: 'Delete one finding',
  tag: 'findings',
  params: codebaseParams.extend({ finding_id: identifier() }),
  query: z.object({ ...projectField }),
  replies: {
    204: { description: 'Deleted' },
    404: { description: 'No such finding, or not yours', schema: errorBody },
  },
});

export const FINDINGS = {
  store,
  listCodebases,
  list: listFindings,
  read: readFinding,
  delete: deleteFinding,
  recall,
  invalidate,
  coverage,
  clear,
};
