/** The options of the held-back trials, live and offline, and their flags. Pure; bench process. */

import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { HELD_BACK_AGENTS, JUDGES } from './agents.ts';
import type { HeldBackAgent } from './held-back-agent.ts';

const TEXT = { type: 'string' } as const;

interface TrialOptions {
  agents: readonly HeldBackAgent[];
  seed: number;
  /** Golden runs of each agent before each round, in rising order. */
  golden: readonly number[];
  /** Runs of each agent in which a sentence forbids, limits or permits something. */
  restricted: number;
  /** The checkout whose student is judged. */
  checkout: string;
}

export interface LiveOptions extends TrialOptions {
  live: number;
  /** Runs after the silent change before each round, in rising order; empty: no silent change. */
  changed: readonly number[];
  /** Runs after each round that follows the silent change. */
  returned: number;
  say: (what: string) => void;
}

export interface OfflineOptions extends TrialOptions {
  /** Usual runs of each agent, that is runs like the golden ones. */
  runs: number;
}

const DEFAULTS = {
  agents: JUDGES,
  seed: 1,
  checkout: join(import.meta.dirname, '../../..'),
} as const;

export const LIVE_DEFAULTS: LiveOptions = {
  ...DEFAULTS,
  golden: [40, 150],
  live: 20,
  restricted: 6,
  changed: [30, 60],
  returned: 10,
  say: () => {},
};

const OFFLINE_DEFAULTS: OfflineOptions = { ...DEFAULTS, golden: [150], runs: 30, restricted: 15 };

/**
 * Reads the flags of live trials.
 * @param args `--held-back` with `--seed N`, `--golden N,N` (golden runs of each agent before each round), `--live N`,
 *   `--restricted N`, `--changed N,N` (runs after the silent change before each round; `--changed=`: no change),
 *   `--agents NAME,NAME`, `--checkout DIR` (another version, on the same runs), `--no-save`. With `--agents` or
 *   `--checkout` nothing is stored
 * @throws Error for an unknown agent or flag, or numbers that do not rise
 */
export function readLiveFlags(args: readonly string[]): Partial<LiveOptions> & { is_saved: boolean } {
  const { values } = parseArgs({
    args: [...args],
    options: {
      'held-back': { type: 'boolean' },
      seed: TEXT,
      golden: TEXT,
      live: TEXT,
      restricted: TEXT,
      changed: TEXT,
      agents: TEXT,
      checkout: TEXT,
      'no-save': { type: 'boolean' },
    },
  });
  return {
    ...readCommon(values),
    ...(values.live === undefined ? {} : { live: readCount('live', values.live) }),
    ...(values.changed === undefined ? {} : { changed: readCounts('changed', values.changed) }),
    is_saved: values['no-save'] !== true && values.agents === undefined && values.checkout === undefined,
  };
}

/**
 * Reads the flags of offline trials.
 * @param args `--held-back --offline` with `--seed N`, `--golden N,N` (golden runs of each agent before each round),
 *   `--runs N` (runs of each agent that are judged), `--restricted N`, `--agents NAME,NAME`, `--checkout DIR` (another
 *   version, on the same runs)
 * @throws Error for an unknown agent or flag, or numbers that do not rise
 */
export function readOfflineFlags(args: readonly string[]): OfflineOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      'held-back': { type: 'boolean' },
      offline: { type: 'boolean' },
      seed: TEXT,
      golden: TEXT,
      runs: TEXT,
      restricted: TEXT,
      agents: TEXT,
      checkout: TEXT,
    },
  });
  const runs = values.runs === undefined ? {} : { runs: readCount('runs', values.runs) };
  return { ...OFFLINE_DEFAULTS, ...readCommon(values), ...runs };
}

type CommonFlags = { [name in keyof TrialOptions]?: string | undefined };

function readCommon({ agents, seed, golden, restricted, checkout }: CommonFlags): Partial<TrialOptions> {
  return {
    ...(agents === undefined ? {} : { agents: agents.split(',').map(findAgent) }),
    ...(seed === undefined ? {} : { seed: readCount('seed', seed) }),
    ...(golden === undefined ? {} : { golden: readCounts('golden', golden) }),
    ...(restricted === undefined ? {} : { restricted: readCount('restricted', restricted) }),
    ...(checkout === undefined ? {} : { checkout: resolve(checkout) }),
  };
}

function readCounts(name: string, text: string): number[] {
  const counts = text
    .split(',')
    .filter(Boolean)
    .map((each) => readCount(name, each));
  if (counts.some((count, at) => count <= (counts[at - 1] ?? 0)))
    throw new Error(`--${name} must be rising whole numbers above 0: ${text}`);
  return counts;
}

function readCount(name: string, text: string): number {
  const count = Number(text);
  if (!Number.isSafeInteger(count) || count < 0) throw new Error(`--${name} must be a whole number: ${text}`);
  return count;
}

function findAgent(name: string): HeldBackAgent {
  const found = HELD_BACK_AGENTS.find((agent) => agent.name === name);
  if (found === undefined)
    throw new Error(`no agent ${name}: ${HELD_BACK_AGENTS.map((agent) => agent.name).join(', ')}`);
  return found;
}
