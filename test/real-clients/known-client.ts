/** Runs Claude Code and Codex, so that one test can check the same rules for both. */
import { join } from 'node:path';
import type { ScriptedToolCall } from '../../src/demo/script.ts';
import {
  CLAUDE_SETTINGS,
  type ClientPlace,
  readJsonLines,
  runClient,
  type SessionEnd,
} from './client-session.ts';
import { type InstalledClient, installClient } from './installed-client.ts';
import type { TaskTools } from './session-tasks.ts';

/** A session that has ended. */
export interface Session extends SessionEnd {
  id: string;
  /** The agent's last text. */
  answer: string;
}

export interface KnownClient {
  /** The client's name in our own command line. */
  name: 'claude-code' | 'codex';
  /** The client's name, with the model if the model decides how the client works. */
  title: string;
  installed: InstalledClient;
  /** The path of the settings that contain the hooks. */
  settings(home: ClientPlace): string;
  /** A call of the client's shell tool, for a script of the provider. */
  shell(command: string): ScriptedToolCall;
  /** Calls of the client's tools for files, for a script of the provider. @param folder the session's folder */
  files(folder: string): Omit<TaskTools, 'shell'>;
  /** A call of an MCP server's tool. */
  mcpTool(server: string, tool: string, input: Record<string, unknown>): ScriptedToolCall;
  /**
   * Whether a request with these tools was made before the server's tools were known: the client does not wait for a
   * slow server.
   */
  lacks(server: string, tools: readonly string[]): boolean;
  /**
   * Gives the client a task.
   * @param provider address of the model
   * @param env variables for the hooks or servers
   * @param more further arguments of the client's command line
   */
  ask(
    home: ClientPlace,
    prompt: string,
    provider: string,
    env?: Record<string, string>,
    more?: readonly string[],
  ): Promise<Session>;
  /** Runs another command of the client, such as `mcp add`. */
  run(home: ClientPlace, words: readonly string[], env?: Record<string, string>): Promise<SessionEnd>;
}

const PROVIDER_KEY = 'provider-key';

export async function claudeCode(): Promise<KnownClient> {
  const installed = await installClient('claude-code');
  return {
    name: 'claude-code',
    title: 'claude-code',
    installed,
    settings: ({ work }) => join(work, '.claude', 'settings.json'),
    shell: (command) => ({ name: 'Bash', input: { command, description: 'Runs it.' } }),
    files: (folder) => ({
      read: (path) => ({ name: 'Read', input: { file_path: join(folder, path) } }),
      edit: (path, old_string, new_string) => ({
        name: 'Edit',
        input: { file_path: join(folder, path), old_string, new_string },
      }),
      write: (path, line) => ({
        name: 'Write',
        input: { file_path: join(folder, path), content: `${line}\n` },
      }),
    }),
    mcpTool: (server, tool, input) => ({ name: `mcp__${server}__${tool}`, input }),
    lacks: () => false,
    ask: async (home, prompt, provider, env = {}, more = []) => {
      const words = [
        '-p',
        prompt,
        '--model',
        'claude-demo-large',
        '--output-format',
        'stream-json',
        '--verbose',
      ];
      const end = await runClient(
        installed,
        home,
        [...words, ...more, '--allowedTools', 'Bash,Read,Edit,Write,Agent,mcp__understudy'],
        { ...CLAUDE_SETTINGS, ANTHROPIC_BASE_URL: provider, ANTHROPIC_API_KEY: PROVIDER_KEY, ...env },
      );
      const result = readJsonLines(end.stdout).find(({ type }) => type === 'result');
      return { ...end, id: result?.session_id ?? '', answer: result?.result ?? '' };
    },
    run: (home, words, env = {}) => runClient(installed, home, words, { ...CLAUDE_SETTINGS, ...env }),
  };
}

/** Calls of a shell in place of tools for files. */
function filesOfShell(shell: TaskTools['shell']): Omit<TaskTools, 'shell'> {
  return {
    read: (path) => shell(`cat ${path}`),
    edit: (path, from, to) => shell(`sed -i 's/${from}/${to}/' ${path} && cat ${path}`),
    write: (path, line) => shell(`echo '${line}' > ${path} && cat ${path}`),
  };
}

/** Codex's own choice. Such a model gets its tools as an item of the input, and calls the shell from JavaScript. */
const NEWER_MODEL = 'gpt-6.2-sol';

export async function newerCodex(): Promise<KnownClient> {
  const shell = (command: string): ScriptedToolCall => ({
    name: 'exec',
    input: `const { output } = await tools.exec_command(${JSON.stringify({ cmd: command })});\ntext(output);`,
  });
  const title = `codex with ${NEWER_MODEL}`;
  return { ...(await codex(NEWER_MODEL)), title, shell, files: () => filesOfShell(shell) };
}

/** @param model the model's name, which decides how Codex declares its tools: for a newer model, in the input */
export async function codex(model = 'gpt-demo-large'): Promise<KnownClient> {
  const installed = await installClient('codex');
  const shell = (command: string): ScriptedToolCall => ({ name: 'exec_command', input: { cmd: command } });
  return {
    name: 'codex',
    title: 'codex',
    installed,
    settings: ({ home }) => join(home, '.codex', 'hooks.json'),
    shell,
    files: () => filesOfShell(shell),
    mcpTool: (server, tool, input) => ({ name: tool, namespace: `mcp__${server}`, input }),
    lacks: (server, tools) => !tools.includes(`mcp__${server}`),
    ask: async (home, prompt, provider, env = {}, more = []) => {
      const model_provider = `{ name = "fake", base_url = "${provider}/v1", env_key = "PROVIDER_KEY", wire_api = "responses" }`;
      const end = await runClient(
        installed,
        home,
        [
          ...['exec', '--json', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox'],
          ...['--dangerously-bypass-hook-trust', '-m', model],
          ...['-c', 'model_provider="fake"', '-c', `model_providers.fake=${model_provider}`, ...more],
          prompt,
        ],
        { PROVIDER_KEY, ...env },
      );
      const events = readJsonLines(end.stdout);
      const answers = events.filter(({ item }) => item?.type === 'agent_message');
      return {
        ...end,
        id: events.find(({ type }) => type === 'thread.started')?.thread_id ?? '',
        answer: answers.at(-1)?.item.text ?? '',
      };
    },
    run: (home, words, env = {}) => runClient(installed, home, words, env),
  };
}
