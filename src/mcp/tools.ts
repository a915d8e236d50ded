/**
 * The tools that an agent gets over the Model Context Protocol: their purpose, their arguments and results, and how
 * they call the API. Any thread.
 */
import { z } from 'zod';
import { FINDINGS } from '../contract/findings.ts';
import {
  CODEBASE_ID_CHARACTERS,
  FINDINGS_TOP_K,
  RETRIEVE_CONTEXT_CHARACTERS,
  RETRIEVE_TOP_K_DEFAULT,
  RETRIEVE_TOP_K_MAX,
} from '../contract/limits.ts';
import { RETRIEVE } from '../contract/retrieve.ts';
import { FINDING_BOUNDS } from '../domain/finding-bounds.ts';
import { readRun, searchRuns } from './run-tools.ts';
import { answer, type CallApi, type Tool } from './tool-answer.ts';

export interface ToolOptions {
  call: CallApi;
  /** Default code base; null: each call must name one. */
  codebase_id: string | null;
}

/** Instructions that a client may put into the model's system prompt. */
export const INSTRUCTIONS =
  'Understudy remembers what earlier agents learned. When you begin a task, or when you are stuck, call retrieve_patterns ' +
  'with the task in a sentence. Before you explore a code base, call recall_findings with your question. When you have found ' +
  'out something about the code base that took effort and will still be true tomorrow, call record_finding. To look up how ' +
  'earlier runs went, call search_runs, and read_run for one of them. If a tool fails, go on without it.';

/** The tools, in the order in which clients list them. */
export function makeTools(options: ToolOptions): Tool[] {
  return [
    retrievePatterns(options),
    recallFindings(options),
    recordFinding(options),
    searchRuns(options.call),
    readRun(options.call),
  ];
}

/** A copy of the API's schema without its name, because a named schema would become a reference. */
const pattern = z.object({
  pattern_id: z.string(),
  tier: z.string().describe('e1: of the project, e2: of the organization, e3: universal'),
  similarity: z.number().describe('0 to 1'),
  fields: z.object({
    situation: z.string().describe('The situation in which the pattern applies'),
    dead_ends: z.string().describe('What was tried in vain'),
    unlock: z.string().describe('What solved it'),
  }),
});

function retrievePatterns({ call }: ToolOptions): Tool {
  const input = z.object({
    context: z
      .string()
      .min(1)
      .max(RETRIEVE_CONTEXT_CHARACTERS)
      .describe('The task, or the problem that you are stuck on, in a sentence or two'),
    top_k: z
      .int()
      .min(1)
      .max(RETRIEVE_TOP_K_MAX)
      .default(RETRIEVE_TOP_K_DEFAULT)
      .describe('Maximum number of patterns'),
  });
  const output = z.object({
    traces: z.array(pattern).describe('The most similar first; empty when nothing fits'),
  });
  return {
    name: 'retrieve_patterns',
    title: 'Retrieve patterns',
    description:
      'Finds what earlier agents learned on similar tasks: the situation, the dead ends they ran into, and what solved it. ' +
      'Call it when you begin a task and when you are stuck. An empty list is a normal answer.',
    annotations: { readOnlyHint: true, openWorldHint: false },
    inputSchema: input,
    outputSchema: output,
    run: (given: z.output<typeof input>) => answer(output, () => call(RETRIEVE.retrieve, {}, given)),
  };
}

const finding = z.object({
  finding_id: z.string(),
  content: z.string(),
  file_path: z.string(),
  finding_type: z.string(),
  created_at: z.string(),
  score: z.number().describe('Similarity to the question, 0 to 1'),
});

function recallFindings({ call, codebase_id }: ToolOptions): Tool {
  const input = z.object({
    query: z
      .string()
      .min(1)
      .max(FINDING_BOUNDS.query)
      .describe('What you want to know about the code base, as a question or in keywords'),
    codebase_id: codebaseField(codebase_id),
    file_path: z
      .string()
      .max(FINDING_BOUNDS.file_path)
      .optional()
      .describe('Only findings about exactly this file, as it was recorded'),
    top_k: z.int().min(1).max(FINDINGS_TOP_K).default(5).describe('Maximum number of findings'),
  });
  const output = z.object({
    findings: z.array(finding).describe('The most similar first; empty if no finding is similar'),
  });
  return {
    name: 'recall_findings',
    title: 'Recall findings',
    description:
      'Searches what was recorded about a code base: where things are, how to build and test it, what surprised an agent. ' +
      'Call it before you explore. A finding may be out of date: look before you rely on it.',
    annotations: { readOnlyHint: true, openWorldHint: false },
    inputSchema: input,
    outputSchema: output,
    run: (given: z.output<typeof input>) =>
      answer(output, () => {
        const { codebase_id: named, ...body } = given;
        return call(FINDINGS.recall, { codebase_id: named }, body);
      }),
  };
}

const stored = z.object({ finding_id: z.string(), created_at: z.string() });

function recordFinding({ call, codebase_id }: ToolOptions): Tool {
  const input = z.object({
    content: z
      .string()
      .min(1)
      .max(FINDING_BOUNDS.content)
      .describe(
        'The finding, in words that stand by themselves: one fact, with the names that one would search for',
      ),
    codebase_id: codebaseField(codebase_id),
    file_path: z
      .string()
      .max(FINDING_BOUNDS.file_path)
      .default('')
      .describe('The file that it is about, relative to the root of the code base; empty for none'),
    finding_type: z
      .string()
      .max(FINDING_BOUNDS.finding_type)
      .default('note')
      .describe('Kind of the finding in one word, such as note, bug, convention, command'),
  });
  return {
    name: 'record_finding',
    title: 'Record a finding',
    description:
      'Records a fact about a code base for the agents that come after you. Record what took effort to find out and stays ' +
      'true: how to run one test, why a module is as it is, a trap. Do not record what the code says at a glance, how your ' +
      'task is going, or secrets. A finding that is recorded twice is stored once.',
    annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: true, openWorldHint: false },
    inputSchema: input,
    outputSchema: stored,
    run: (given: z.output<typeof input>) =>
      answer(stored, () => {
        const { codebase_id: named, ...body } = given;
        return call(FINDINGS.store, { codebase_id: named }, body);
      }),
  };
}

function codebaseField(unset: string | null) {
  const field = z
    .string()
    .min(1)
    .max(CODEBASE_ID_CHARACTERS)
    .describe('Names the code base, the same each time: the name of its repository, such as owner/name');
  return unset === null ? field : field.default(unset);
}
