/** The run of a request according to its client's own headers, as observed in requests of real clients. */
import { describe, expect, it } from 'vitest';
import { readClientRun } from '../../src/domain/client-run.ts';

const SESSION = 'd60530b4-a57a-44c3-9a84-b36ea3e98f78';
const read = (headers: Record<string, string>, own: string[] = []) =>
  readClientRun(Object.entries(headers), own);

describe('a client run', () => {
  it('is the session of Claude Code, and its agents are child runs', () => {
    const main = { 'X-Claude-Code-Session-Id': SESSION };
    expect(read(main)).toMatchObject({
      run_id: SESSION,
      session_id: SESSION,
      parent_run_id: null,
      kind: null,
    });
    const agent = { ...main, 'x-claude-code-agent-id': 'a69baf915666a168d' };
    expect(read(agent)).toMatchObject({
      run_id: `${SESSION}:a69baf915666a168d`,
      session_id: SESSION,
      parent_run_id: SESSION,
      kind: 'subagent',
    });
    expect(read({ ...agent, 'x-claude-code-parent-agent-id': 'b12baf915666a168d' })).toMatchObject({
      parent_run_id: `${SESSION}:b12baf915666a168d`,
    });
  });

  it('has the kind that Claude Code’s own header gives a side call', () => {
    const main = { 'x-claude-code-session-id': SESSION, 'x-claude-code-request-class': 'compaction' };
    expect(read(main)).toMatchObject({
      run_id: `${SESSION}:summary`,
      parent_run_id: SESSION,
      kind: 'summary',
    });
    for (const word of ['main', 'auxiliary', 'constructor', '__proto__'])
      expect(read({ ...main, 'x-claude-code-request-class': word })).toMatchObject({
        run_id: SESSION,
        kind: null,
      });
  });

  it('is the thread of Codex, whose agents have separate threads', () => {
    const thread = '01a208e9-bdbf-70c2-9efa-6514c0ea14f3';
    expect(read({ 'session-id': SESSION, 'thread-id': SESSION })).toMatchObject({
      run_id: SESSION,
      kind: null,
    });
    expect(
      read({
        'session-id': SESSION,
        'thread-id': thread,
        'x-codex-parent-thread-id': SESSION,
        'x-openai-subagent': 'collab_spawn',
      }),
    ).toMatchObject({ run_id: thread, session_id: SESSION, parent_run_id: SESSION, kind: 'subagent' });
    expect(
      read({ 'session-id': SESSION, 'thread-id': SESSION, 'x-openai-subagent': 'compact' }),
    ).toMatchObject({
      run_id: `${SESSION}:summary`,
      kind: 'summary',
    });
  });

  it('is the session of opencode, whose parent is the session that started it', () => {
    const id = 'ses_df7161870ffe9s8WpX8Zifxwjz';
    const parent = 'ses_aaaa61870ffe9s8WpX8Zifxwjz';
    expect(read({ 'x-session-affinity': id, 'x-session-id': id })).toMatchObject({
      run_id: id,
      session_id: id,
      kind: null,
    });
    expect(read({ 'x-session-affinity': id, 'x-parent-session-id': parent })).toMatchObject({
      run_id: id,
      session_id: parent,
      parent_run_id: parent,
      kind: 'subagent',
    });
  });

  it('is the task of Cline, and not of another client with the same header', () => {
    expect(read({ 'X-Task-ID': '1763909965123', 'X-CORE-VERSION': '0.0.86' })).toMatchObject({
      run_id: '1763909965123',
    });
    expect(read({ 'X-Task-ID': '1763909965123' })).toBeNull();
    expect(read({ originator: 'cline', session_id: '1763909965123' })).toMatchObject({
      run_id: '1763909965123',
    });
    expect(read({ originator: 'another', session_id: '1763909965123' })).toBeNull();
    expect(read({ session_id: '1763909965123' })).toBeNull();
  });

  it("is the one in the operator's header, before all other headers", () => {
    const headers = { 'X-Acme-Run': 'nightly-7', 'x-claude-code-session-id': SESSION };
    expect(read(headers, ['x-acme-job', 'x-acme-run'])).toMatchObject({ run_id: 'nightly-7', kind: null });
    expect(read(headers)).toMatchObject({ run_id: SESSION });
  });

  it('does not exist if its name is too short, too long or masked', () => {
    for (const id of ['', '7', 'x'.repeat(201), '[redacted]'])
      expect(read({ 'x-claude-code-session-id': id, 'session-id': id, 'x-session-affinity': id })).toBeNull();
    expect(read({ 'x-acme-run': 'x'.repeat(201) }, ['x-acme-run'])).toBeNull();
    expect(read({})).toBeNull();
  });
});
