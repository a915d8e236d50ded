/** Reads the labelled agent runs in ../shared/agent-runs. Only the evaluation of the monitors uses these runs. */
import { existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { gunzipSync } from 'node:zlib';
import type { MonitorStep } from '../../src/domain/monitors/masked-step.ts';
import type { MonitorName } from '../../src/domain/monitors/names.ts';

export interface AgentRun {
  source: string;
  task: string;
  task_profile: string;
  steps: MonitorStep[];
  labels: {
    outcome: 'success' | 'failure' | 'unknown';
    loop: boolean | null;
    loop_basis: string | null;
    loop_steps: number[];
    no_loop_steps: number[];
    failures: { step: number; agent: string; by: string; monitor: MonitorName | null }[];
    annotated_by: string[];
  };
}

/** Names of the data sets, as the tables print them. */
export const DATA_SETS = ['magentic-one', 'retail', 'airline', 'hotpotqa', 'swe-agent'] as const;
export type DataSet = (typeof DATA_SETS)[number];

/** The file that is read if no other is named. */
export const DEFAULT_FILE = resolve(import.meta.dirname, '../../../shared/agent-runs/tune.jsonl.gz');

export function dataSetOf(run: AgentRun): DataSet {
  if (run.source.startsWith('mingyin1/')) return 'magentic-one';
  if (run.source.startsWith('microsoft/')) return 'retail';
  if (run.source.startsWith('sierra-research/')) return 'airline';
  if (run.source.startsWith('noahshinn/')) return 'hotpotqa';
  return 'swe-agent';
}

/** Reads all runs of the file (gzip or plain JSON lines); null if the file does not exist. */
export function readAgentRuns(file = DEFAULT_FILE): AgentRun[] | null {
  if (!existsSync(file)) return null;
  const bytes = readFileSync(file);
  const text = (bytes[0] === 0x1f && bytes[1] === 0x8b ? gunzipSync(bytes) : bytes).toString('utf8');
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as AgentRun);
}
