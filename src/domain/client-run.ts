/**
 * Finds the run of a request from headers that its client sends anyway: coding agents number their sessions for their
 * providers' caches and logs. docs/clients.md has the table with the source of each header. Pure; any thread. An agent
 * that another agent started has its own run within the session. So do an agent's side calls. Runs get the same names
 * as from the clients' hooks (src/hooks), so that a captured run and a monitored one match.
 */
import { isCredentialHeader } from '../redaction/header-names.ts';
import { MASK } from '../redaction/mask.ts';
import type { ChildKind, SideKind } from './child-kind.ts';

/** The run to which a request belongs. */
export interface ClientRun {
  run_id: string;
  session_id: string;
  /** The parent run; null for the session's own run. */
  parent_run_id: string | null;
  /** null: this is the session's own run, not a child. */
  kind: ChildKind | null;
  /** Whether it is a coding agent that offers tools to its model in every call of its work. */
  always_offers_tools: boolean;
}

/**
 * Minimum and maximum length of a session's name in a client's header. For an operator's own header
 * (`SVC_RUN_HEADERS`), only the maximum applies.
 */
const ID_CHARACTERS_MIN = 8;
const ID_CHARACTERS_MAX = 200;

/** The headers of a request. Both methods trim the value. */
interface Found {
  /** Returns the value of a header if its length is that of a session id; otherwise null. */
  id(name: string): string | null;
  /** Returns the value of a header; '' without the header. */
  word(name: string): string;
}

/** One entry for each client; the first entry that finds its header decides. */
const CLIENTS: readonly ((found: Found) => ClientRun | null)[] = [
  readClaudeCode,
  readCodex,
  readOpencode,
  readCline,
];

/** Names, in lower case, of the headers from which a client's run is read. */
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
 * Finds the run that a request's headers name.
 * @param headers as stored
 * @param own names of the operator's own headers, in lower case; the first one whose value is not empty, too long or
 *   masked names the run
 * @returns null if no header names one
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
 * Whether an operator may choose this header to name runs. A credential header is not allowed, because its value is
 * masked before it is read; nor is a header in OTHER_HEADERS.
 * @param name in lower case
 */
export function isRunHeader(name: string): boolean {
  return /^[a-z\d][a-z\d._-]{0,99}$/.test(name) && !isCredentialHeader(name) && !OTHER_HEADERS.has(name);
}

const OTHER_HEADERS = new Set([
  'x-svc-run',
  'x-svc-seq',
  'x-svc-tags',
  'host',
  'connection',
  'content-length',
]);

/** Makes the run of a client's side calls of one kind, a child of `run`. */
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

/** Values of a header that Claude Code sends only to its maker's own gateways. */
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

/** Values of `x-openai-subagent` that mean a side call. Other values, such as `review`, mean an agent. */
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

/**
 * Reads the run of a request from Cline; null for other requests. Several clients send `x-task-id`, so Cline is
 * recognized by its version, which it also sends.
 */
function readCline({ id, word }: Found): ClientRun | null {
  // With a ChatGPT sign-in Cline names the session in another header.
  const isSignedIn = word('originator') === 'cline';
  const task = isSignedIn ? id('session_id') : word('x-core-version') === '' ? null : id('x-task-id');
  return task === null ? null : nameSession(task);
}
