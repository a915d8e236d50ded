/**
 * The run that a request belongs to by what its client sends anyway: coding agents number their sessions for their providers'
 * caches and logs. docs/clients.md has the table with the source of each header. Pure; where stored copies are indexed.
 *
 * An agent that another one started has its own run within the session, and so have calls that an agent makes beside its
 * work. The names are those that the clients' hooks give the same runs (src/hooks), so that a captured run and a monitored one
 * are one.
 */
import { isCredentialHeader } from '../redaction/header-names.ts';
import { MASK } from '../redaction/mask.ts';
import type { ChildKind, SideKind } from './child-kind.ts';

/** Where a request belongs. */
export interface ClientRun {
  run_id: string;
  session_id: string;
  /** The run that this one is part of; null for the session's own. */
  parent_run_id: string | null;
  /** null: the session's own run. */
  kind: ChildKind | null;
  /** A coding agent that offers its model tools in every call of its work. */
  always_offers_tools: boolean;
}

/** A session's number is never as short; longer ones are no number. */
const ID_CHARACTERS_MIN = 8;
const ID_CHARACTERS_MAX = 200;

/** Gives a header's value where it may be a number, or any short word. */
interface Found {
  id(name: string): string | null;
  word(name: string): string;
}

/** One client each; the first that finds its header says it. */
const CLIENTS: readonly ((found: Found) => ClientRun | null)[] = [
  readClaudeCode,
  readCodex,
  readOpencode,
  readCline,
];

/** Names of the headers that are read here, in lower case. */
const READ_NAMES = new Set([
  ...['x-claude-code-session-id', 'x-claude-code-agent-id', 'x-claude-code-parent-agent-id'],
  'x-claude-code-request-class',
  ...['session-id', 'thread-id', 'x-codex-parent-thread-id', 'x-openai-subagent'],
  ...['x-session-affinity', 'x-opencode-session', 'x-parent-session-id'],
  ...['x-task-id', 'x-core-version', 'session_id', 'originator'],
]);

/**
 * Whether `readClientRun` reads the header.
 * @param name in lower case
 * @param own names of the operator's own headers, in lower case
 */
export function mayNameRun(name: string, own: readonly string[]): boolean {
  return READ_NAMES.has(name) || own.includes(name);
}

/**
 * @param headers as they are stored
 * @param own names of the operator's own headers, in lower case; the first that is there names the run
 * @returns null where nothing names one
 */
export function readClientRun(
  headers: readonly (readonly [name: string, value: string])[],
  own: readonly string[],
): ClientRun | null {
  const found = new Map<string, string>();
  for (const [written, value] of headers) {
    const name = written.toLowerCase();
    if (mayNameRun(name, own) && !found.has(name)) found.set(name, value);
  }
  if (found.size === 0) return null;
  for (const name of own) {
    const value = found.get(name) ?? '';
    const isName = value !== '' && value.length <= ID_CHARACTERS_MAX && !value.includes(MASK);
    if (isName) return nameSession(value);
  }
  const reading: Found = {
    id: (name) => {
      const value = found.get(name)?.trim() ?? '';
      if (value.includes(MASK)) return null;
      return value.length >= ID_CHARACTERS_MIN && value.length <= ID_CHARACTERS_MAX ? value : null;
    },
    word: (name) => found.get(name)?.trim() ?? '',
  };
  for (const read of CLIENTS) {
    const run = read(reading);
    if (run !== null) return run;
  }
  return null;
}

/**
 * Whether an operator's header can name runs: values of a credential's header are masked before anybody reads them.
 * @param name in lower case
 */
export function isRunHeader(name: string): boolean {
  return /^[a-z\d][a-z\d._-]{0,99}$/.test(name) && !isCredentialHeader(name) && !OTHER_HEADERS.has(name);
}

const OTHER_HEADERS = new Set(['x-svc-run', 'x-svc-seq', 'host', 'connection', 'content-length']);

/** The run of calls beside the work: one for all of a kind. */
export function nameSideRun(run: ClientRun, kind: SideKind): ClientRun {
  return { ...run, run_id: `${run.run_id}:${kind}`, parent_run_id: run.run_id, kind };
}

function nameSession(session_id: string): ClientRun {
  return { run_id: session_id, session_id, parent_run_id: null, kind: null, always_offers_tools: false };
}

function readClaudeCode({ id, word }: Found): ClientRun | null {
  const session = id('x-claude-code-session-id');
  if (session === null) return null;
  const run: ClientRun = { ...nameSession(session), always_offers_tools: true };
  const agent = id('x-claude-code-agent-id');
  if (agent !== null) {
    const parent = id('x-claude-code-parent-agent-id');
    run.run_id = `${session}:${agent}`;
    run.parent_run_id = parent === null ? session : `${session}:${parent}`;
    run.kind = 'subagent';
  }
  const kind = CLAUDE_CODE_CLASSES.get(word('x-claude-code-request-class'));
  return kind === undefined ? run : nameSideRun(run, kind);
}

/** What it sends to its maker's own gateways only. */
const CLAUDE_CODE_CLASSES: ReadonlyMap<string, SideKind> = new Map([
  ['compaction', 'summary'],
  ['side_reply', 'side_call'],
]);

function readCodex({ id, word }: Found): ClientRun | null {
  const session = id('session-id');
  const thread = id('thread-id') ?? session;
  if (thread === null) return null;
  const run: ClientRun = { ...nameSession(session ?? thread), run_id: thread, always_offers_tools: true };
  const parent = id('x-codex-parent-thread-id') ?? (thread === run.session_id ? null : run.session_id);
  const side = CODEX_SOURCES.get(word('x-openai-subagent'));
  if (parent !== null && parent !== thread) {
    run.parent_run_id = parent;
    run.kind = side ?? 'subagent';
    return run;
  }
  return side === undefined ? run : nameSideRun(run, side);
}

/** Values of `x-openai-subagent`; a `review` and what was spawned are agents. */
const CODEX_SOURCES: ReadonlyMap<string, SideKind> = new Map([
  ['compact', 'summary'],
  ['memory_consolidation', 'summary'],
  ['guardian', 'safety_check'],
]);

function readOpencode({ id }: Found): ClientRun | null {
  const session = id('x-session-affinity') ?? id('x-opencode-session');
  if (session === null) return null;
  const parent = id('x-parent-session-id');
  const run: ClientRun = { ...nameSession(session), always_offers_tools: session.startsWith('ses_') };
  if (parent === null || parent === session) return run;
  return { ...run, session_id: parent, parent_run_id: parent, kind: 'subagent' };
}

/** Others call their tasks so too; Cline says its version beside it. */
function readCline({ id, word }: Found): ClientRun | null {
  // With a sign-in at ChatGPT it names the session otherwise.
  const isSignedIn = word('originator') === 'cline';
  const task = isSignedIn ? id('session_id') : word('x-core-version') === '' ? null : id('x-task-id');
  return task === null ? null : nameSession(task);
}
